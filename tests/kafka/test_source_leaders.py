"""Partitions whose leader was lost go on once their last copied records are compared, portion by portion. Without a
cluster."""

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.kafka.copying import leaders
from ha_core.kafka.copying.leaders import SourceLeaders
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.last_records import COMPARED_AT_ONCE, LastCopied
from ha_core.kafka.offsets import Leadership
from ha_core.plan.facts.clusters import Partition

MANY = 2 * COMPARED_AT_ONCE + 50
SOURCE, TARGET = SimpleNamespace(cluster=SimpleNamespace(name="east")), SimpleNamespace()


class Lane:
    """A partition that has copied everything that it fetched."""

    def __init__(self, number: int) -> None:
        self.source_key: Partition = ("orders", number)
        self.leader: Leadership | None = None
        self.last_copied = LastCopied(self.source_key, 7, ("east.orders", number), 9)
        self.partition = SimpleNamespace(idle=True)
        self.copy = SimpleNamespace(source_topic="orders", anew="delete the copy")
        self.source_id = ""
        self.target_node, self.look_at, self.missed, self.proven = 1, 0.0, 0, False
        self.missing_since: float | None = None
        self.trouble = ""


class Lanes(list[Lane]):
    @property
    def seeking(self) -> list[Lane]:
        return [lane for lane in self if lane.leader is None]

    def file(self, _: Lane) -> None:
        pass


class Beside:
    """Does work that was begun when told to."""

    def __init__(self) -> None:
        self.begun: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def start(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.begun.append((work, then))

    def do_one(self) -> None:
        work, then = self.begun.pop(0)
        then(work())


class Compared:
    """:ivar asked: the partitions of each comparison."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.found: Callable[[Partition], bool | KafkaAdminError | None] = lambda _: False

    def __call__(
        self, _source: object, _target: object, wanted: Collection[LastCopied]
    ) -> Mapping[Partition, bool | KafkaAdminError]:
        self.asked.append(len(wanted))
        found = {one.source_key: self.found(one.source_key) for one in wanted}
        return {key: one for key, one in found.items() if one is not None}


def _led(keys: Collection[Partition], _: float) -> dict[Partition, Leadership]:
    return {key: Leadership(1, 3, "") for key in keys}


class Ground:
    def __init__(self) -> None:
        self.lanes, self.beside, self.compared, self.stopped = Lanes(), Beside(), Compared(), list[Lane]()
        self.lanes += [Lane(number) for number in range(MANY)]
        source: Any = SimpleNamespace(cluster=SOURCE.cluster, leaderships=_led)
        parts: Any = (source, TARGET, self.beside, self.lanes, self._stop, lambda: 0.0, lambda: None)
        self.leaders = SourceLeaders(*parts)

    def _stop(self, lane: Lane, _: str) -> None:
        self.stopped.append(lane)
        self.lanes.remove(lane)

    @property
    def going_on(self) -> int:
        return sum(lane.leader is not None for lane in self.lanes)


@pytest.fixture
def ground(monkeypatch: pytest.MonkeyPatch) -> Ground:
    found = Ground()
    monkeypatch.setattr(leaders, "rewritten", found.compared)
    found.leaders.locate(1.0)
    found.beside.do_one()
    return found


def test_partitions_go_on_as_soon_as_their_own_portion_is_compared(ground: Ground) -> None:
    """All of a broker were one comparison, within whose five seconds the last batches of thousands do not come."""
    for going_on in (COMPARED_AT_ONCE, 2 * COMPARED_AT_ONCE, MANY):
        ground.beside.do_one()
        assert ground.going_on == going_on
    assert ground.compared.asked == [COMPARED_AT_ONCE, COMPARED_AT_ONCE, 50]
    assert not ground.beside.begun


def test_while_partitions_wait_for_their_comparison_they_are_not_searched_again(ground: Ground) -> None:
    ground.beside.do_one()
    ground.leaders.locate(2.0)
    assert len(ground.beside.begun) == 1


def test_one_portion_without_an_answer_is_told_for_all_of_its_brokers(ground: Ground) -> None:
    ground.compared.found = lambda _: None
    ground.beside.do_one()
    assert ground.compared.asked == [COMPARED_AT_ONCE]
    assert not ground.beside.begun
    assert {lane.missed for lane in ground.lanes} == {1}
    # And all are compared once the brokers answer again
    ground.compared.found = lambda _: False
    ground.leaders.locate(9.0)
    while ground.beside.begun:
        ground.beside.do_one()
    assert ground.going_on == MANY


def test_a_partition_with_another_record_stops_and_one_that_cannot_be_asked_is_searched_again(ground: Ground) -> None:
    told: dict[int, bool | KafkaAdminError] = {0: True, 1: KafkaAdminError("east", "has no such topic.")}
    ground.compared.found = lambda key: told.get(key[1], False)
    ground.beside.do_one()
    assert [lane.source_key[1] for lane in ground.stopped] == [0]
    assert ground.going_on == COMPARED_AT_ONCE - 2
    assert ground.lanes[0].missed == 1


def test_partitions_that_leave_while_they_wait_are_not_compared(ground: Ground) -> None:
    del ground.lanes[COMPARED_AT_ONCE:]
    while ground.beside.begun:
        ground.beside.do_one()
    assert ground.compared.asked == [COMPARED_AT_ONCE]
    assert ground.going_on == COMPARED_AT_ONCE
