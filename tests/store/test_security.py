"""How ZooKeeper is reached: configuration files, TLS, and nodes that belong to an account."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from ha_core.model import Cluster
from ha_core.store.commits import StateChange
from ha_core.store.errors import StoreError, StoreSecurityError, StoreUnavailableError
from ha_core.store.security import FILE_VARIABLE, OPEN, StoreSecurity, from_environment, parse
from ha_core.store.zookeeper import connect
from ha_core.wire.tls_files import TlsFiles
from stack.certificates import Authority
from stack.tls import StackTls
from tests.store.zookeeper_process import ZooKeeperProcess


def test_without_a_file_neither_tls_nor_credentials_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    assert from_environment() == OPEN
    assert OPEN.open


def test_a_file_names_certificates_and_password_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    file = tmp_path / "zookeeper.yaml"
    file.write_text("tls: {ca_file: ca.pem}\nusername: switchyard\npassword_file: password\n")
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    security = from_environment()
    assert security == StoreSecurity(TlsFiles(ca_file=str(tmp_path / "ca.pem")), "switchyard", "s3cret")
    assert not security.open
    assert "s3cret" not in repr(security)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ("x", "holds str"),
        ({"user": "x"}, "user: no such key. Known: tls, username, password_file"),
        ({"tls": "ca.pem"}, "tls: holds str"),
        ({"username": "a:b", "password_file": "password"}, "it may hold no colon"),
        ({"username": "a"}, "belong together"),
        ({"password_file": "password"}, "belong together"),
        ({"username": "a", "password_file": "missing"}, "No such file"),
        ({"username": "a", "password_file": "empty"}, "is empty"),
    ],
)
def test_an_error_in_the_file_is_named_with_the_remedy(tmp_path: Path, found: object, why: str) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(StoreSecurityError, match=why):
        parse(found, "zookeeper.yaml", tmp_path)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> StackTls:
    return StackTls.make(tmp_path_factory.mktemp("tls"), "switchyard", ())


@pytest.fixture(scope="module")
def server(tls: StackTls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    running = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    running.secure(tls)
    running.start()
    yield running
    running.close()


def change() -> StateChange:
    east = Cluster(name="east", bootstrap="h:1")
    return StateChange(puts=(east,), expected={(Cluster, "east"): None}, change_id="test", operation=None, epoch=None)


def test_over_tls_the_state_is_read_and_written_and_belongs_to_its_account(
    server: ZooKeeperProcess, tls: StackTls
) -> None:
    # Given a state that was made over TLS, with an account
    security = StoreSecurity(tls.files, "switchyard", "s3cret")
    store = connect(server.secure_hosts, "/owned", connect_timeout_s=60, security=security)
    store.commit(change())
    assert "east" in store.load().clusters
    # Then a client without the account can neither read nor change it, also not by the open port
    with pytest.raises(StoreError, match="belongs to another account"):
        connect(server.hosts, "/owned", connect_timeout_s=60, security=OPEN).load()
    stranger = KazooClient(hosts=server.hosts)
    stranger.start(60)
    for path in ("/owned", "/owned/clusters/east"):
        with pytest.raises(NoAuthError):
            stranger.set(path, b"mine")
    stranger.stop()
    stranger.close()
    # And the account is good for another session
    again = connect(server.hosts, "/owned", connect_timeout_s=60, security=StoreSecurity(None, "switchyard", "s3cret"))
    assert "east" in again.load().clusters
    again.close()
    store.close()


@pytest.mark.parametrize("case", ["no tls", "another authority", "another name", "no certificate"])
def test_without_matching_tls_zookeeper_is_not_reached(
    server: ZooKeeperProcess, tls: StackTls, tmp_path: Path, case: str
) -> None:
    other = Authority(tmp_path, "Another")
    hosts, security = {
        "no tls": (server.secure_hosts, OPEN),
        "another authority": (server.secure_hosts, StoreSecurity(TlsFiles(ca_file=str(other.file)))),
        "another name": (server.secure_hosts.replace("127.0.0.1", "127.0.0.2"), StoreSecurity(tls.files)),
        "no certificate": (server.secure_hosts, StoreSecurity(TlsFiles(ca_file=str(tls.authority)))),
    }[case]
    with pytest.raises(StoreUnavailableError, match="TLS"):
        connect(hosts, connect_timeout_s=3, security=security)


def test_files_that_cannot_be_used_are_named_at_once(tmp_path: Path) -> None:
    missing = StoreSecurity(TlsFiles(ca_file=str(tmp_path / "missing.pem")))
    with pytest.raises(StoreSecurityError, match="No such file"):
        connect("127.0.0.1:1", security=missing)
