"""Packages of Node.js are used only if they match the lock."""

import base64
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from stack.clients import kafka_js
from stack.clients.kafka_js import node_modules
from stack.errors import StackError

MANIFEST = json.dumps({"name": "thing", "version": "1.0.0"}).encode()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one package, stored on this machine, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = tmp_path / "thing-1.0.0.tgz"
    with tarfile.open(archive, "w:gz") as file:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(MANIFEST)
        file.addfile(entry, io.BytesIO(MANIFEST))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "package.json").write_text(
        json.dumps({"name": "project", "private": True, "dependencies": {"thing": f"file:{archive}"}})
    )
    lock(folder, archive, archive.read_bytes())
    return folder


def lock(project: Path, archive: Path, content: bytes) -> None:
    """Lock the package to this content."""
    needed = {"thing": f"file:{archive}"}
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    thing = {"version": "1.0.0", "resolved": f"file:{archive}", "integrity": f"sha512-{digest}"}
    packages = {"": {"name": "project", "dependencies": needed}, "node_modules/thing": thing}
    document = {"name": "project", "lockfileVersion": 3, "requires": True, "packages": packages}
    (project / "package-lock.json").write_text(json.dumps(document))


def test_locked_packages_are_fetched_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given packages that were fetched
    first = node_modules(project)
    # When npm is not available any more
    monkeypatch.setattr(kafka_js, "_install", None)
    # Then they are used as they are
    assert node_modules(project) == first
    assert (first / "thing" / "package.json").read_bytes() == MANIFEST


def test_a_package_that_differs_from_the_lock_is_refused_and_not_kept(project: Path, tmp_path: Path) -> None:
    # Given a lock of another content
    lock(project, tmp_path / "thing-1.0.0.tgz", b"something else")
    # When it is fetched, then npm's output is passed on, and the next call fetches again
    for _ in range(2):
        with pytest.raises(StackError, match=r"are not the locked ones(?s:.)*EINTEGRITY"):
            node_modules(project)
