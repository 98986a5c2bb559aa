"""A flow starts again where its internal topics were deleted, or a cluster was made anew. Without a cluster."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, Self

import pytest

from ha_core.flows.configuration import configuration
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.properties import parse
from ha_core.mirror_maker import worker
from ha_core.mirror_maker.ground import FlowGround
from ha_core.mirror_maker.internal_topics import objections
from ha_core.mirror_maker.membership import OnlyWorker
from ha_core.wire.codes import ErrorCode

TEXT = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
IN_SOURCE = {"mm2-offset-syncs.B.internal"}
IN_TARGET = {"heartbeats", "A.checkpoints.internal", "mm2-copies.internal"}


def flow() -> FlowConfig:
    (found,) = configuration(parse(TEXT, "mm2"), "mm2", {}).flows
    return found


class Brokers:
    """:ivar ids: topic → its id."""

    def __init__(self, name: str, topics: Collection[str]) -> None:
        self.cluster = SimpleNamespace(name=name)
        self.cluster_id, self.ids = f"id of {name}", dict.fromkeys(topics, b"first")

    def asking(self) -> Self:
        return self

    def metadata(self, names: Collection[str]) -> dict[str, Any]:
        def entry(name: str) -> dict[str, Any]:
            there = name in self.ids
            code = 0 if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return {"name": name, "error_code": code, "topic_id": self.ids.get(name, bytes(16))}

        return {"cluster_id": self.cluster_id, "topics": [entry(name) for name in names]}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def source() -> Brokers:
    return Brokers("A", IN_SOURCE)


@pytest.fixture
def target() -> Brokers:
    return Brokers("B", IN_TARGET)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ground(source: Any, target: Any, clock: Clock) -> FlowGround:
    found = FlowGround(flow(), source, target, clock)
    assert found.changed() == ""
    return found


@pytest.mark.parametrize("name", sorted(IN_TARGET))
def test_a_deleted_topic_counts_once_it_stays_away(
    ground: FlowGround, target: Brokers, clock: Clock, name: str
) -> None:
    """A broker that has just started does not know every topic yet."""
    id_ = target.ids.pop(name)
    assert ground.changed() == ""
    clock.now_s += 9
    assert ground.changed() == ""
    target.ids[name] = id_
    assert ground.changed() == ""
    del target.ids[name]
    clock.now_s += 9
    assert ground.changed() == ""
    clock.now_s += 10
    assert ground.changed() == f"its internal topic {name} of B was deleted"


def test_a_topic_that_was_created_again_counts_at_once(ground: FlowGround, source: Brokers) -> None:
    source.ids["mm2-offset-syncs.B.internal"] = b"second"
    assert "mm2-offset-syncs.B.internal of A was deleted and created again" in ground.changed()


def test_another_cluster_at_the_same_address_counts_at_once(ground: FlowGround, target: Brokers) -> None:
    target.cluster_id = "id of the next one"
    assert ground.changed() == "B was made anew: its cluster id is id of the next one now"


def test_a_flow_on_another_ground_is_stopped_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Flow:
        def __init__(self, number: int) -> None:
            self.flow, self.number, self.outdated, self.stopped = flow(), number, "", False

        def stop(self) -> None:
            self.stopped = True

        def again(self) -> "Flow":
            assert self.stopped
            return Flow(self.number + 1)

    monkeypatch.setattr(worker, "RunningFlow", Flow)
    running: Any = worker.Worker(lambda: configuration(parse(TEXT, "mm2"), "mm2", {}), OnlyWorker())
    first = running.running["A->B"] = Flow(1)
    running._start_outdated()
    assert running.running["A->B"] is first
    first.outdated = "B was made anew"
    running._start_outdated()
    assert running.running["A->B"].number == 2


@pytest.mark.parametrize(("own", "objected"), [({}, False), ({"cleanup.policy": "delete"}, True)])
def test_a_topic_that_a_client_made_is_no_obstacle_to_a_start(own: dict[str, str], objected: bool) -> None:
    """The flow's own producers make brokers create a topic that was deleted: it has one partition and no settings."""

    class Described(Brokers):
        def topics(self, names: Collection[str], offsets: bool) -> dict[str, Any]:
            made = SimpleNamespace(name="heartbeats", partitions=1, config=own, defaults={"cleanup.policy": "delete"})
            return {"heartbeats": made} if "heartbeats" in names else {}

    clusters: Any = Described("A", ()), Described("B", ())
    assert bool(list(objections(flow(), *clusters))) is objected
