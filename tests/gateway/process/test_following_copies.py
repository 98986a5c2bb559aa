"""A gateway knows positions in copies while bindings read from them, and forgets unconfirmed ones."""

import asyncio
from collections.abc import Iterator

import pytest

from gateway.follow.copies import TRUSTED_S, FollowingCopies
from gateway.model.copies import Copies
from ha_core.model import CopiedMirror, CopiedPartition, Mirror, MirrorCopies, Run, UserBindings, View
from ha_core.store.errors import StoreUnavailableError
from stack.memory_store import MemoryStore

MIRROR = Mirror.of("orders", "east", "west", "l1", "2026-01-01T00:00:00Z", "test")
READS = View(1, bindings={"a": UserBindings(user="a", read="west")}, mirrors={MIRROR.key: MIRROR})


def copies_of(slot: int, end: int, level: bool = True) -> MirrorCopies:
    copied_partitions = {0: CopiedPartition.of(end, level, [Run(0, 0, end)])}
    return MirrorCopies(
        slot=slot, job="j", mirrors=(CopiedMirror(mirror=MIRROR.key, link="l1", partitions=copied_partitions),)
    )


class Followed:
    def __init__(self, store: MemoryStore) -> None:
        self.copies, self.view, self.now, self.fails = Copies(), READS, 0.0, False
        self._read = store.follow_mirror_copies().read
        self._following = FollowingCopies(self._ask, self.copies, lambda: self.view, lambda: self.now)

    def _ask(self) -> list[MirrorCopies]:
        if self.fails:
            raise StoreUnavailableError("ZooKeeper is away")
        return self._read()

    def ends(self) -> list[int]:
        """Known positions after one more look."""
        asyncio.run(self._following.look())
        return [copy.copied.end for copy in self.copies.reports.values()]


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


@pytest.fixture
def followed(store: MemoryStore) -> Followed:
    return Followed(store)


def test_reported_positions_are_followed_until_the_reports_end(store: MemoryStore, followed: Followed) -> None:
    # Given a task that reports its positions
    assert followed.ends() == []
    task = store.register(copies_of(0, 5))
    assert followed.ends() == [5]
    # When two tell of the same, the one that is further counts
    other = store.register(copies_of(1, 9))
    assert followed.ends() == [9]
    # And when they have ended nothing is known
    other.close()
    assert followed.ends() == [5]
    task.close()
    assert followed.ends() == []


def test_unchanged_positions_are_the_same_objects_so_that_no_answer_is_rebuilt(
    store: MemoryStore, followed: Followed
) -> None:
    store.register(copies_of(0, 5))
    followed.ends()
    before = followed.copies.reports[MIRROR.key, 0]
    followed.ends()
    assert followed.copies.reports[MIRROR.key, 0] is before


@pytest.mark.parametrize(
    "view", [View(2, mirrors=READS.mirrors), View(2, bindings=READS.bindings)], ids=["no reader", "no mirror"]
)
def test_positions_are_not_polled_while_no_binding_reads_from_copies(
    store: MemoryStore, followed: Followed, view: View
) -> None:
    store.register(copies_of(0, 5))
    assert followed.ends() == [5]
    followed.view, followed.fails = view, True
    assert followed.ends() == []


def test_positions_outlive_a_short_absence_of_zookeeper_and_no_long_one(store: MemoryStore, followed: Followed) -> None:
    store.register(copies_of(0, 5))
    assert followed.ends() == [5]
    followed.fails, followed.now = True, TRUSTED_S
    assert followed.ends() == [5]
    followed.now += 1
    assert followed.ends() == []
    followed.fails = False
    assert followed.ends() == [5]
