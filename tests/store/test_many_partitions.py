"""A thousand topics of fifty partitions each, in a real ZooKeeper."""

import uuid
from collections.abc import Iterator
from random import Random

import pytest

from ha_core.model import Extent, Topic
from ha_core.operations.engine.revisions import in_batches
from ha_core.store.errors import TooLargeError
from ha_core.store.paths import path_of
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect

from .documents import put
from .waiting import DEADLINE_S, delivered
from .zookeeper_process import ZooKeeperProcess

TOPICS, PARTITIONS = 1_000, 50
MAX_STORED_BYTES = 1_600
"""Limit for a map of 50 partitions with two extents; its JSON is 9 kB."""


@pytest.fixture
def root() -> str:
    return f"/test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def store(zookeeper: ZooKeeperProcess, root: str) -> Iterator[Store]:
    opened = connect(zookeeper.hosts, root=root, connect_timeout_s=DEADLINE_S)
    yield opened
    opened.close()


@pytest.fixture
def other(zookeeper: ZooKeeperProcess, root: str) -> Iterator[Store]:
    opened = connect(zookeeper.hosts, root=root, connect_timeout_s=DEADLINE_S)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def topics() -> dict[str, Topic]:
    return {topic.name: topic for topic in map(mapped, range(TOPICS))}


def mapped(number: int) -> Topic:
    """Every partition has ends of its own."""
    seed = Random(number)
    partitions: dict[int, tuple[Extent, ...]] = {}
    for partition in range(PARTITIONS):
        cut, base = seed.randrange(10**6, 10**11), seed.randrange(10**11)
        partitions[partition] = (
            Extent(cluster="east", start=0, end=cut, base=0, writer_epoch=0),
            Extent(cluster="west", start=cut, base=base, writer_epoch=1),
        )
    return Topic(name=f"orders-of-team-{number:04d}", writer="west", partitions=partitions)


def test_fifty_thousand_partitions_are_written_in_batches_followed_and_loaded(
    store: Store, other: Store, topics: dict[str, Topic]
) -> None:
    # Given a watcher
    changed: set[str] = set()
    watcher = other.watch(lambda view, paths: changed.update(paths))
    delivered(watcher, 0)
    # When a thousand topics are written in batches
    batches = list(in_batches(topics.values(), {}))
    for batch in batches:
        store.commit(put(*batch))
    # Then the watcher and a reader have all of them, and each is stored small
    assert len(batches) == 5, "ten thousand partitions each"
    assert delivered(watcher, len(batches)).topics == topics
    assert changed == {path_of(Topic, name) for name in topics}
    assert other.load().topics == topics
    sizes = [len(node.data) for node in store._tree.get_many(sorted(changed)) if node is not None]
    assert len(sizes) == TOPICS
    assert max(sizes) <= MAX_STORED_BYTES


def test_ten_thousand_partitions_that_change_at_once_reach_a_watcher_as_one_revision(
    store: Store, other: Store, topics: dict[str, Topic]
) -> None:
    # Given a watcher of two hundred topics
    some = list(topics.values())[:200]
    store.commit(put(*some))
    seen: list[tuple[int, frozenset[str]]] = []
    watcher = other.watch(lambda view, paths: seen.append((view.revision, paths)))
    delivered(watcher, 1)
    # When all of them change in one revision
    moved = {topic.name: topic.model_copy(update={"writer": "east"}) for topic in some}
    store.commit(put(*moved.values(), at=0))
    # Then the watcher is given one view with all of them
    assert delivered(watcher, 2).topics == moved
    paths = frozenset(path_of(Topic, name) for name in moved)
    assert seen == [(1, paths), (2, paths)]


def test_fifty_thousand_partitions_in_one_write_are_refused_and_nothing_is_written(
    store: Store, topics: dict[str, Topic]
) -> None:
    with pytest.raises(TooLargeError, match=r"1002 nodes is 1[34]\d{5} bytes, ZooKeeper takes 1040000 "):
        store.commit(put(*topics.values()))

    view = store.load()
    assert (view.revision, view.topics) == (0, {})
