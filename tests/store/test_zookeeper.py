"""Behaviour that only a real ZooKeeper can show."""

import socket
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ha_core.model import UserBindings
from ha_core.store.errors import NoStateError, StoreUnavailableError
from ha_core.store.store import Store
from ha_core.store.tree import Create, Node
from ha_core.store.zookeeper import MAX_BATCH, connect, read_in_batches
from tests.kit.waiting import until

from .documents import binding, gateway, operation, put
from .waiting import DEADLINE_S, delivered
from .zookeeper_process import ZooKeeperProcess

MANY = 100_000


@pytest.fixture
def store(zookeeper: ZooKeeperProcess) -> Iterator[Store]:
    opened = connect(zookeeper.hosts, root=f"/test-{uuid.uuid4().hex[:8]}", connect_timeout_s=DEADLINE_S)
    yield opened
    opened.close()


def test_connecting_without_a_zookeeper_names_the_hosts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        hosts = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(StoreUnavailableError, match=f"no ZooKeeper answers at {hosts} within 0.3 s"):
            connect(hosts, connect_timeout_s=0.3)


@pytest.mark.parametrize("root", ["switchyard", "/switchyard/", "/"])
def test_a_root_that_is_not_a_path_is_refused(root: str) -> None:
    with pytest.raises(ValueError, match="must start with a slash"):
        connect("127.0.0.1:1", root=root)


def test_connecting_to_a_mistyped_root_creates_nothing_and_suggests_the_most_similar_one(
    zookeeper: ZooKeeperProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given many states, and a look at one of them only
    root = f"/test-{uuid.uuid4().hex[:8]}"
    for known in (f"/a-{root[1:]}-elsewhere", root):
        connect(zookeeper.hosts, root=known, connect_timeout_s=DEADLINE_S).close()
    monkeypatch.setattr("ha_core.store.zookeeper._MAX_ROOTS", 1)

    for _ in range(2):
        with pytest.raises(NoStateError, match=f"no state of Switchyard at {root}x.*{root}.*Correct --root"):
            connect(zookeeper.hosts, root=f"{root}x", connect_timeout_s=DEADLINE_S, create=False)
    connect(zookeeper.hosts, root=root, connect_timeout_s=DEADLINE_S, create=False).close()


def test_a_closed_store_fails_at_once(zookeeper: ZooKeeperProcess) -> None:
    store = connect(zookeeper.hosts, root="/closed", connect_timeout_s=DEADLINE_S, patience_s=10 * DEADLINE_S)
    store.close()

    with pytest.raises(StoreUnavailableError, match="the session was closed"):
        store.load()


def test_state_locks_and_gateways_survive_a_restart_of_zookeeper(tmp_path: Path) -> None:
    # Given a state with a document, an operation with its lock, and a gateway
    server = ZooKeeperProcess(tmp_path, durable=True)
    server.start()
    store = connect(server.hosts, session_timeout_s=60.0, connect_timeout_s=DEADLINE_S, patience_s=DEADLINE_S)
    states: list[str] = []
    watcher = store.watch(lambda view, changed: None, states.append)
    store.commit(put(binding("ann")))
    store.create_operation(operation(), ["user:ann"])
    store.register_gateway(gateway())
    delivered(watcher, 1)
    # When ZooKeeper is restarted
    server.stop()
    until(lambda: states[-1] == "suspended", "suspended")
    server.start()
    # Then all of it is there, and writing goes on
    assert store.commit(put(binding("bob"))) == 2
    assert set(delivered(watcher, 2).bindings) == {"ann", "bob"}
    assert [lock.key for lock in store.locks()] == ["user:ann"]
    assert store.gateways() == [gateway()]
    store.close()
    server.close()


def test_a_hundred_thousand_bindings_are_loaded(store: Store) -> None:
    # Given a hundred thousand users
    bindings = [UserBindings(user=f"user-{n:06d}", cluster="east", topics={"orders": "west"}) for n in range(MANY)]
    for start in range(0, MANY, 2000):
        store._tree.write([Create(f"/bindings/{b.user}", b.to_bytes()) for b in bindings[start : start + 2000]])
    # When the state is loaded
    view = store.load()
    # Then it has them
    assert len(view.bindings) == MANY
    assert view.bindings["user-099999"] == bindings[-1]


def test_read_batches_shrink_for_large_documents_and_grow_for_small_ones() -> None:
    # Given small documents, large ones, and small ones again
    small, large = [10] * 2000, [900_000] * 600
    sizes = [*small, *large, *small]
    asked: list[int] = []

    def read(paths: Sequence[str]) -> list[Node | None]:
        asked.append(len(paths))
        return [Node(bytes(sizes[int(path)]), 0, 0) for path in paths]

    # When they are read
    nodes = read_in_batches([str(n) for n in range(len(sizes))], read)
    # Then all have come, in batches as large as allowed and as small as needed
    assert [len(node.data) for node in nodes if node] == sizes
    assert max(asked) == MAX_BATCH
    assert min(asked) <= 4


def test_reading_many_nodes_keeps_the_places_of_missing_ones(store: Store) -> None:
    store._tree.write([Create(f"/topics/t-{n}", b"%d" % n) for n in range(0, 1000, 2)])

    nodes = store._tree.get_many([f"/topics/t-{n}" for n in range(1000)])

    found = [None if node is None else int(node.data) for node in nodes]
    assert found == [n if n % 2 == 0 else None for n in range(1000)]
