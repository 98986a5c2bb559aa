"""Recording facts repeatedly beside the gateways, with clusters that do not answer."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.kafka.facts import LogEnds
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Cluster, Document, KnownTopic
from ha_core.operations.clusters import last_seen
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.store.commits import StateChange
from ha_core.store.errors import StoreUnavailableError, TooLargeError
from stack.memory_store import MemoryStore


def _known(topics: dict[str, KnownTopic], names: Collection[str]) -> dict[str, KnownTopic]:
    return topics


class StoppedError(Exception):
    """The process was ended."""


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def make(said: list[str]) -> Callable[[list[float]], Environment]:
    """An environment with the cluster `east`, whose clock advances by sleeping; it is stopped in its third pause."""

    def environment(pauses: list[float]) -> Environment:
        store = MemoryStore()
        east = Cluster(name="east", bootstrap="127.0.0.1:1", default=True)
        expected: dict[tuple[type[Document], str], int | None] = {(Cluster, "east"): None}
        store.commit(StateChange(change_id="seed", puts=(east,), expected=expected))
        clock = [0.0]

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            clock[0] += seconds
            if len(pauses) == 3:
                raise StoppedError

        return Environment(
            store=store.client(), by="test", progress=said.append, sleep=sleep, monotonic=lambda: clock[0]
        )

    return environment


def test_facts_are_recorded_at_every_interval_even_when_a_cluster_fails(
    make: Callable[[list[float]], Environment], said: list[str]
) -> None:
    pauses: list[float] = []
    rounds: list[Sequence[last_seen.RecordedCluster]] = []

    with pytest.raises(StoppedError):
        last_seen.record_always(make(pauses), 60.0, looked=rounds.append)

    assert pauses == [60.0] * 3
    assert [[(look.cluster, bool(look.error)) for look in looks] for looks in rounds] == [[("east", True)]] * 3
    assert sum(line.startswith("east: ") for line in said) == 3


def test_recording_facts_continues_while_the_store_is_unreachable(
    make: Callable[[list[float]], Environment], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def away(*_: object) -> None:
        raise StoreUnavailableError("no ZooKeeper")

    monkeypatch.setattr(last_seen, "record", away)
    with pytest.raises(StoppedError):
        last_seen.record_always(make(pauses), 5.0)

    assert said == ["nothing was recorded: no ZooKeeper"] * 3


def test_facts_too_large_for_the_store_are_reported_and_do_not_stop_recording(
    make: Callable[[list[float]], Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = make([])

    def too_large(*_: object) -> None:
        raise TooLargeError("a write of 1 nodes is 2000000 bytes")

    monkeypatch.setattr(environment.store, "keep_known", too_large)
    monkeypatch.setattr(last_seen, "known_topics", lambda *_: {})
    monkeypatch.setattr(last_seen, "known_groups", lambda *_: {})

    assert [look.error for look in last_seen.record(environment)] == ["a write of 1 nodes is 2000000 bytes"]


def test_a_topic_whose_leader_does_not_answer_keeps_its_older_facts() -> None:
    # Given a topic whose leaders have all answered, one with a missing leader, and an internal one
    def described(name: str, ends: int, internal: bool = False) -> TopicDescription:
        found = {partition: LogEnds(0, 7, 7, 7, 1, 0) for partition in range(ends)}
        return TopicDescription(name, 2, 1, {}, found, internal)

    descriptions = {
        t.name: t for t in (described("whole", 2), described("half", 1), described("__own", 2, internal=True))
    }
    admin: Any = SimpleNamespace(cluster=SimpleNamespace(name="east"), topics=lambda timeout_s: descriptions)
    older = KnownTopic(cluster="east", name="half", at="2026-01-01T00:00:00Z", partitions=2, replication=1)
    asked: list[Collection[str]] = []

    def before(names: Collection[str]) -> dict[str, KnownTopic]:
        asked.append(names)
        return {"half": older}

    # When their facts are recorded
    seen = last_seen.known_topics(admin, "2026-02-02T00:00:00Z", before)
    # Then the second one keeps its older facts
    assert asked == [["whole", "half"]]
    assert set(seen) == {"whole", "half"}
    assert seen["half"] == older
    assert (seen["whole"].at, seen["whole"].ends) == ("2026-02-02T00:00:00Z", {0: 7, 1: 7})


def test_the_fastest_growth_between_two_reads_is_kept_for_when_the_cluster_is_dead() -> None:
    ends = iter((100, 700, 760))

    def topics(timeout_s: float) -> dict[str, TopicDescription]:
        end = next(ends)
        return {"orders": TopicDescription("orders", 1, 1, {}, {0: LogEnds(0, end, end, end, 1, 0)})}

    admin: Any = SimpleNamespace(cluster=SimpleNamespace(name="east"), topics=topics)
    seen: dict[str, KnownTopic] = {}
    fastest = []
    for minute in range(3):
        known_topics = seen
        seen = last_seen.known_topics(admin, f"2026-01-01T00:{minute:02}:00Z", partial(_known, known_topics))
        fastest.append(seen["orders"].fastest)

    assert fastest == [None, 10.0, 10.0]


def test_recording_facts_of_an_unregistered_cluster_is_refused(make: Callable[[list[float]], Environment]) -> None:
    with pytest.raises(RefusedError, match="There is no cluster 'north'"):
        last_seen.record_always(make([]), 60.0, ["north"])
