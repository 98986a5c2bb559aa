import uuid
from collections.abc import Iterator

import pytest

from .sessions import Backend, MemoryBackend, Session, ZooKeeperBackend
from .zookeeper_process import ZooKeeperProcess


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.close()


@pytest.fixture(params=["memory", "zookeeper"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made: Backend
    if request.param == "memory":
        made = MemoryBackend()
    else:
        made = ZooKeeperBackend(request.getfixturevalue("zookeeper"), f"/test-{uuid.uuid4().hex[:8]}/deep")
    yield made
    made.close()


@pytest.fixture
def session(backend: Backend) -> Session:
    return backend.open()


@pytest.fixture
def other(backend: Backend) -> Session:
    return backend.open()
