"""Jars are used only if they match the lock."""

from hashlib import sha256
from pathlib import Path

import pytest

from stack import jars
from stack.errors import StackError
from stack.jars import Module, kafka_jars, read_lock, verify
from stack.java import find_java

GOOD = b"the locked jar"
MODULES = [Module("org.example", name, "1.0", sha256(GOOD).hexdigest()) for name in ("first", "second")]


def _silent(_text: str) -> None:
    return None


def serve_good(modules: list[Module], target: Path, _java: object) -> None:
    """A registry with the locked jars."""
    for module in modules:
        (target / module.jar).write_bytes(GOOD)


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock file of version 1.2.3 and an empty cache."""
    lock = tmp_path / "kafka-1.2.3.lock"
    lock.write_text("# made up\n" + "".join(f"{m.organisation} {m.name} {m.revision} {m.sha256}\n" for m in MODULES))
    monkeypatch.setattr(jars, "_LOCKS", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_jar_with_a_wrong_checksum_is_refused_by_name_and_not_kept(
    locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a registry that serves another second jar
    def serve(modules: list[Module], target: Path, _java: object) -> None:
        for module in modules:
            (target / module.jar).write_bytes(GOOD if module.name == "first" else b"something else")

    monkeypatch.setattr(jars, "fetch", serve)
    # When they are fetched
    with pytest.raises(StackError) as caught:
        kafka_jars("1.2.3", find_java(), _silent)
    # Then the jar, both checksums and the lock are named, and the next start fetches again
    assert "org.example.second-1.0.jar was refused" in str(caught.value)
    assert MODULES[1].sha256 in str(caught.value)
    assert "kafka-1.2.3.lock" in str(caught.value)
    with pytest.raises(StackError, match="was refused"):
        kafka_jars("1.2.3", find_java(), _silent)


def test_verified_jars_are_not_fetched_again(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given jars that were fetched and verified once
    monkeypatch.setattr(jars, "fetch", serve_good)
    first = kafka_jars("1.2.3", find_java(), _silent)
    # When the network is gone
    monkeypatch.setattr(jars, "fetch", None)
    # Then they are used as they are
    assert kafka_jars("1.2.3", find_java(), _silent) == first
    assert sorted(file.name for file in first.glob("*.jar")) == sorted(module.jar for module in MODULES)


def test_a_changed_lock_file_gets_its_own_folder(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given jars that were fetched for a lock file
    monkeypatch.setattr(jars, "fetch", serve_good)
    first = kafka_jars("1.2.3", find_java(), _silent)
    # When the lock file has changed
    (locked / "kafka-1.2.3.lock").write_text(f"org.example first 1.0 {MODULES[0].sha256}\n")
    second = kafka_jars("1.2.3", find_java(), _silent)
    # Then other jars are fetched, into their own folder
    assert first != second
    assert [file.name for file in second.glob("*.jar")] == [MODULES[0].jar]


def test_every_lock_file_is_complete_and_names_each_jar_once() -> None:
    for version in jars.locked_versions():
        modules = read_lock(Path(jars.__file__).parent / f"kafka-{version}.lock")
        names = [module.jar for module in modules]
        assert len(names) == len(set(names))
        assert f"org.apache.kafka.kafka_2.13-{version}.jar" in names
        assert f"org.apache.kafka.kafka-tools-{version}.jar" in names
        assert f"org.apache.kafka.connect-mirror-{version}.jar" in names


def test_application_jars_are_locked_for_a_locked_version_and_are_not_among_its_jars() -> None:
    folder = Path(jars.__file__).parent
    locks = list(folder.glob("applications-*.lock"))
    assert locks
    for lock in locks:
        kafka = read_lock(lock.with_name(lock.name.replace("applications", "kafka")))
        names = [module.name for module in read_lock(lock)]
        assert {"kafka-streams", "kafka-streams-examples", "connect-file", "rocksdbjni"} == set(names)
        assert not {module.name for module in kafka} & set(names)
        assert "connect-runtime" in {module.name for module in kafka}


def test_a_broken_line_of_a_lock_file_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "kafka-1.2.3.lock"
    lock.write_text("# made up\norg.example first 1.0\n")
    with pytest.raises(StackError, match=r"kafka-1\.2\.3\.lock:2"):
        read_lock(lock)


def test_verify_accepts_locked_jars_and_refuses_changed_ones(tmp_path: Path) -> None:
    for module in MODULES:
        (tmp_path / module.jar).write_bytes(GOOD)
    verify(MODULES, tmp_path, "a lock")
    (tmp_path / MODULES[0].jar).write_bytes(GOOD + b" ")
    with pytest.raises(StackError, match=r"org\.example\.first-1\.0\.jar"):
        verify(MODULES, tmp_path, "a lock")
