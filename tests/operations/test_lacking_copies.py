"""Copies that are checked for records that they have deleted and their sources still have."""

import pytest

from ha_core.model import CopiedMirror, CopiedPartition, KnownTopic, Mirror, MirrorCopies, Run
from ha_core.operations.engine.environment import Environment
from ha_core.operations.mirror.health import _candidates
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore

MIRROR = Mirror.of("orders", "east", "west", "link-1", "2026-11-23T10:00:00Z", "test")


@pytest.mark.parametrize(
    ("runs", "source_start", "copy_start", "looked_at"),
    [
        ((Run(0, 1, 100),), 0, 0, False),
        ((Run(0, 1, 100),), 60, 61, False),
        ((Run(0, 1, 100),), 60, 20, False),
        ((Run(0, 1, 100),), 59, 61, True),
        ((Run(0, 1, 100),), 0, 102, True),
        # Only the copy's log tells which records lie below the newest runs
        ((Run(50, 51, 50),), 10, 40, True),
        ((Run(50, 51, 50),), 60, 40, False),
        ((), 60, 61, True),
    ],
)
def test_brokers_are_asked_unless_known_log_starts_and_runs_show_that_no_record_is_lacking(
    store: MemoryStore,
    environment: Environment,
    runs: tuple[Run, ...],
    source_start: int,
    copy_start: int,
    looked_at: bool,
) -> None:
    # Given a mirror, the last known log starts of source and copy, and the runs that copiers report
    store.commit(StateChange(change_id="link", puts=(MIRROR,), expected={(Mirror, MIRROR.key): None}))
    for cluster, start in (("east", source_start), ("west", copy_start)):
        starts = {0: start} if start else {}
        seen = KnownTopic(
            cluster=cluster, name="orders", at="now", partitions=1, replication=1, ends={0: 102}, starts=starts
        )
        store.keep_known(KnownTopic, cluster, [seen])
    part = CopiedPartition.of(100, True, runs)
    mirror = CopiedMirror(mirror=MIRROR.key, link="link-1", partitions={0: part})
    store.client().register(MirrorCopies(slot=0, job="j", mirrors=(mirror,)))
    # Then brokers are asked if the copy may lack records
    assert list(_candidates(environment, environment.store.load())) == ([MIRROR] if looked_at else [])
