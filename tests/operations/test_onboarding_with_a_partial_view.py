"""`onboard check` says what it could not see, and does not take it for quiet."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.kafka.errors import NotReadyError
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.probe import Probe
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Cluster
from ha_core.operations.access.onboarding import ClientsPast, clients_past, leaving
from ha_core.operations.engine.environment import Environment, utc_now
from tests.cli.invoking import seeded

EAST = Cluster(name="east", bootstrap="127.0.0.1:1", default=True)


def topic(name: str, ends: Mapping[int, int], partitions: int | None = None) -> TopicDescription:
    return TopicDescription(
        name=name,
        partitions=len(ends) if partitions is None else partitions,
        replication=1,
        config={},
        ends={partition: LogEnds(0, end, end, end, 1, 1) for partition, end in ends.items()},
        internal=name.startswith("__"),
    )


class East:
    """It has other topics at each look; no groups."""

    def __init__(self, *looks: list[TopicDescription], hides: bool = False) -> None:
        self._looks, self._hides = [*looks], hides

    def probe(self, **_: Any) -> Probe:
        return Probe(True, answers=True)

    def list_groups(self, **_: Any) -> dict[str, str]:
        return {}

    def topics(self, *_: Any, **__: Any) -> dict[str, TopicDescription]:
        return {one.name: one for one in self._looks.pop(0)}

    def hides_groups(self) -> bool:
        return self._hides


def environment(east: Any, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setattr(Environment, "admin", lambda *_: east)
    return Environment(seeded(EAST).client(), by="test", now=utc_now, sleep=lambda _: None)


def found(monkeypatch: pytest.MonkeyPatch, *looks: list[TopicDescription], hides: bool = False) -> ClientsPast:
    with environment(East(*looks, hides=hides), monkeypatch) as opened:
        return clients_past(opened, "east", 1.0)


def test_records_in_topics_and_partitions_that_were_made_meanwhile_are_a_writers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [topic("grows", {0: 5}), topic("still", {0: 5})]
    after = [topic("grows", {0: 5, 1: 4}), topic("new", {0: 3}), topic("still", {0: 5}), topic("__internal", {0: 9})]

    assert found(monkeypatch, before, after).writers == {"grows": 4, "new": 3}


def test_partitions_without_a_leader_that_answers_are_named_and_are_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [topic("orders", {0: 5, 1: 5}), topic("__consumer_offsets", {0: 1, 1: 1})]
    part = [topic("orders", {0: 5}, 2), topic("__consumer_offsets", {0: 1}, 2)]

    for looks in ((whole, part), (part, whole)):
        check = found(monkeypatch, *looks)

        assert check.writers == {}  # the end that was read once tells no growth
        assert check.not_read == (
            "groups: 1 partition of __consumer_offsets had no leader that answers, and no broker lists their groups",
            "logs: 1 partition had no leader that answers: orders-1",
        )


def test_groups_that_brokers_hide_from_the_account_are_named_with_the_right_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (why,) = found(monkeypatch, [], [], hides=True).not_read
    assert why.startswith("groups: the service account lacks Describe on the cluster")

    with environment(East(hides=True), monkeypatch) as opened:
        assert leaving(opened, "east").not_read == (why,)


def test_rights_that_cannot_be_asked_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> bool:
        raise NotReadyError("east", "brokers are busy")

    east = SimpleNamespace(
        probe=lambda **_: Probe(True, answers=True),
        list_groups=lambda **_: {},
        topics=lambda *_: {},
        hides_groups=fails,
    )
    with environment(east, monkeypatch) as opened:
        (why,) = clients_past(opened, "east", 1.0).not_read

    assert "brokers are busy" in why
