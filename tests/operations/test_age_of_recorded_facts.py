"""How old what was last seen of a dead cluster is, where clocks are wrong."""

from datetime import UTC, datetime, timedelta

import pytest

from ha_core.kafka.facts import LogEnds
from ha_core.model import KnownTopic, Mirror, MirrorReport, MoveSet, PartitionReport
from ha_core.operations.clusters.last_seen import LastKnown
from ha_core.operations.engine.environment import Environment
from ha_core.store.commits import StateChange, key_of
from stack.memory_store import MemoryStore

NOW = datetime(2026, 11, 22, 7, 0, tzinfo=UTC)


def age_s(
    recorder_ahead_s: float, store_set_back_s: float, really_s: float = 600.0, look_s: float = 0.0
) -> float | None:
    """The forced move of a topic that was looked at `really_s` ago."""
    store = MemoryStore()
    store.set_clock(lambda: NOW.timestamp() - really_s)
    at = NOW - timedelta(seconds=really_s + look_s - recorder_ahead_s)
    seen = KnownTopic(
        cluster="east", name="t", at=at.isoformat(), partitions=1, replication=1, ends={0: 50}, look_s=look_s
    )
    store.keep_known(KnownTopic, "east", [seen])
    store.set_clock(lambda: NOW.timestamp() - store_set_back_s)
    with Environment(store, by="test", now=NOW.isoformat, monotonic=lambda: 7.0) as environment:
        known = LastKnown.read(environment, "east", MoveSet(topics=("t",)))
        return known.ends(environment, ("t", 0), 0, None).seen_age_s


@pytest.mark.parametrize(
    ("recorder_ahead_s", "store_set_back_s"), [(0, 0), (60, 0), (599, 0), (0, 60), (0, 590), (-30, 0)]
)
def test_one_wrong_clock_never_makes_recorded_facts_look_younger(
    recorder_ahead_s: float, store_set_back_s: float
) -> None:
    assert age_s(recorder_ahead_s, store_set_back_s) == 600 - min(0, recorder_ahead_s)


def test_the_age_of_recorded_facts_includes_the_time_the_recording_took() -> None:
    assert age_s(60, 0, really_s=100, look_s=25) == 125


@pytest.mark.parametrize(("recorder_ahead_s", "store_set_back_s"), [(700, 0), (0, 700)])
def test_facts_recorded_in_the_future_have_no_known_age(recorder_ahead_s: float, store_set_back_s: float) -> None:
    assert age_s(recorder_ahead_s, store_set_back_s) is None


def test_the_start_of_a_dead_log_is_the_highest_of_seen_reported_and_answered_ones() -> None:
    # Given a look that saw the log start at 100, and a copier that has heard of 200 since
    store = MemoryStore()
    mirror = Mirror.of("t", "east", "west", "link-1", "now", "me")
    store.commit(StateChange(change_id="seed", puts=(mirror,), expected={key_of(mirror): None}))
    seen = KnownTopic(
        cluster="east", name="t", at=NOW.isoformat(), partitions=1, replication=1, ends={0: 500}, starts={0: 100}
    )
    store.keep_known(KnownTopic, "east", [seen])

    def told(ends: LogEnds | None = None) -> int:
        with Environment(store.client(), by="test", now=NOW.isoformat, monotonic=lambda: 7.0) as environment:
            known = LastKnown.read(environment, "east", MoveSet(topics=("t",)))
            return known.ends(environment, ("t", 0), 0, ends).origin_start

    assert told() == 100
    part = PartitionReport(mirror=mirror.key, topic="t", partition=0, state="copying", source_start=200)
    store.client().register(MirrorReport(slot=0, job="j", partitions=(part,)))
    assert told() == 200
    # Then a dying leader that says more is believed as well
    assert told(LogEnds(300, 500, 500, 500, 1, 1)) == 300


def test_recorded_facts_grow_older_while_the_fence_drains() -> None:
    store, ticks = MemoryStore(), iter([0.0, 4.0, 9.0])
    seen = KnownTopic(cluster="east", name="t", at=NOW.isoformat(), partitions=1, replication=1, ends={0: 50})
    store.keep_known(KnownTopic, "east", [seen])
    with Environment(store, by="test", now=NOW.isoformat, monotonic=lambda: next(ticks)) as environment:
        known = LastKnown.read(environment, "east", MoveSet(topics=("t",)))
        ages_s = [known.ends(environment, ("t", 0), 0, None).seen_age_s for _ in range(2)]

    assert ages_s[0] is not None
    assert ages_s[1] == pytest.approx(ages_s[0] + 5)
