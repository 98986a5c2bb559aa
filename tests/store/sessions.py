"""Two stores to run the contract on, with a common interface of sessions that can inject faults."""

import contextlib
from typing import Protocol

from kazoo.client import KazooClient

from ha_core.store.connection import ZooKeeperConnection
from ha_core.store.store import Store
from ha_core.store.zookeeper import ZooKeeperTree, connect
from stack.memory_store import MemoryStore

from .fault_proxy import FaultProxy
from .waiting import DEADLINE_S
from .zookeeper_process import ZooKeeperProcess


class Session(Protocol):
    """One client of the store, and the faults that can be injected."""

    @property
    def store(self) -> Store: ...

    def expire(self) -> None: ...
    def lose_next_reply(self, made: bool = True) -> None: ...
    def losses_left(self) -> int: ...
    def suspend(self) -> None: ...
    def resume(self) -> None: ...
    def set_patience(self, patience_s: float) -> None: ...
    def plant(self, path: str, data: bytes) -> None: ...
    def remove(self, path: str) -> None: ...


class Backend(Protocol):
    def open(self) -> Session: ...
    def close(self) -> None: ...


class MemorySession:
    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.expire = store.expire_session
        self.lose_next_reply = store.lose_next_reply
        self.losses_left = store.losses_left
        self.suspend = store.suspend
        self.resume = store.resume
        self.plant = store.plant
        self.remove = store.uproot

    def set_patience(self, patience_s: float) -> None:
        """Memory never waits."""


class MemoryBackend:
    def __init__(self) -> None:
        self._first = MemoryStore()
        self._opened: list[MemoryStore] = []

    def open(self) -> MemorySession:
        self._opened.append(self._first.client())
        return MemorySession(self._opened[-1])

    def close(self) -> None:
        for store in self._opened:
            store.close()


class ZooKeeperSession:
    def __init__(self, server: ZooKeeperProcess, root: str, proxied: bool) -> None:
        self._server, self._root = server, root
        self._proxy = FaultProxy(server.port) if proxied else None
        hosts = f"127.0.0.1:{self._proxy.port}" if self._proxy else server.hosts
        self.store = connect(hosts, root=root, session_timeout_s=4.0, connect_timeout_s=DEADLINE_S, patience_s=10.0)

    @property
    def _connection(self) -> ZooKeeperConnection:
        tree = self.store.tree
        assert isinstance(tree, ZooKeeperTree)
        return tree.connection

    def expire(self) -> None:
        """End the session at the server, as its timeout would: with a second connection of the same session."""
        identity = self._connection.client.client_id
        self.suspend()
        with _direct(self._server, client_id=identity):
            pass
        self.resume()

    def lose_next_reply(self, made: bool = True) -> None:
        assert self._proxy
        self._proxy.lose_next_reply(made)

    def losses_left(self) -> int:
        assert self._proxy
        return self._proxy.losses_left()

    def suspend(self) -> None:
        assert self._proxy
        self._proxy.suspend()

    def resume(self) -> None:
        assert self._proxy
        self._proxy.resume()

    def set_patience(self, patience_s: float) -> None:
        """How long this session's calls wait for a lost connection."""
        self._connection.patience_s = patience_s

    def plant(self, path: str, data: bytes) -> None:
        with _direct(self._server) as client:
            if client.exists(self._root + path):
                client.set(self._root + path, data)
            else:
                client.create(self._root + path, data)

    def remove(self, path: str) -> None:
        with _direct(self._server) as client:
            client.delete(self._root + path)

    def close(self) -> None:
        self.store.close()
        if self._proxy:
            self._proxy.close()


class ZooKeeperBackend:
    def __init__(self, server: ZooKeeperProcess, root: str) -> None:
        self._server, self._root = server, root
        self._opened: list[ZooKeeperSession] = []

    def open(self) -> ZooKeeperSession:
        session = ZooKeeperSession(self._server, self._root, proxied=True)
        self._opened.append(session)
        return session

    def close(self) -> None:
        for session in self._opened:
            session.close()


@contextlib.contextmanager
def _direct(server: ZooKeeperProcess, **options: object):  # type: ignore[no-untyped-def]
    client = KazooClient(hosts=server.hosts, **options)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()
