"""After the cut: what lies beyond it in the origin, and a gateway that stood still and may have come back."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from ha_core.kafka.facts import LogEnds
from ha_core.model import GatewayRecord
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import BypassError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.steps import Effect
from ha_core.operations.move.common_steps import RETURN_S, MoveSteps
from stack.memory_store import MemoryStore
from tests.kit.operations import a_switch

KEY = ("orders", 0)
CUT = 10


class AnySteps(MoveSteps[Any, Any]):
    """The steps that every move takes."""

    effects: Mapping[Any, Effect] = {}


class Origin:
    """Asked for its end, it answers what it was told for that moment."""

    def __init__(self, end: Callable[[float], int], now: Callable[[], float]) -> None:
        self._end, self._now = end, now
        self.looks: list[float] = []

    def ends(self, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], LogEnds]:
        self.looks.append(self._now())
        end = self._end(self._now())
        return {key: LogEnds(0, end, end, end, 1, 1) for key in partitions}


class Scene:
    def __init__(
        self, environment: Environment, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, end: Callable[[float], int]
    ) -> None:
        self.clock = 0.0
        environment.monotonic, environment.sleep = lambda: self.clock, self._sleep
        self.store, self.origin = store, Origin(end, lambda: self.clock)
        self.at: dict[float, Callable[[], Any]] = {}
        monkeypatch.setattr(environment, "admin", lambda _cluster: self.origin)
        evidence = {"origin_ends": {"orders": {"0": CUT}}, "gateways": ["gw-1", "gw-2"]}
        operation = a_switch(state="cut", revision=1, evidence=evidence)
        self.journal = Journal(environment, operation, environment.store.create_operation(operation, []))

    def register(self, name: str) -> None:
        self.store.client().register_gateway(GatewayRecord(id=name, host="h", port=1, node_id=1, revision=1))

    def _sleep(self, seconds: float) -> None:
        self.clock += seconds
        for moment in [due for due in self.at if due <= self.clock]:
            self.at.pop(moment)()


@pytest.fixture
def make_scene(
    environment: Environment, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[float], int]], Scene]:
    return lambda end: Scene(environment, store, monkeypatch, end)


def test_verifying_reads_the_origin_once_when_every_gateway_is_alive(make_scene: Callable[..., Scene]) -> None:
    scene = make_scene(lambda _now: CUT)
    scene.register("gw-1")
    scene.register("gw-2")

    AnySteps(scene.journal).verify()

    assert scene.origin.looks == [0.0]


def test_verifying_reports_exactly_what_a_gateway_that_returns_after_the_cut_has_written(
    make_scene: Callable[..., Scene],
) -> None:
    # Given a gateway that has stood still during the move, and wakes 4 s after the cut with half a request unsent
    scene = make_scene(lambda now: CUT if now < 4 else CUT + 2)
    scene.register("gw-1")
    scene.at[4.0] = lambda: scene.register("gw-2")
    # When the cut is verified
    with pytest.raises(BypassError) as raised:
        AnySteps(scene.journal).verify()
    # Then what lies beyond the cut is told, and by whom it may have been written, as soon as it is back
    assert "orders-0 from 10 to 12" in str(raised.value)
    assert "gw-2 vanished during the move" in str(raised.value)
    assert scene.clock < 6
    (_, failed) = scene.journal.environment.store.history(scene.journal.operation.id)
    assert failed.detail["beyond"] == {"orders": {"0": [10, 12]}}


def test_verifying_waits_a_bounded_time_for_a_gateway_that_vanished(make_scene: Callable[..., Scene]) -> None:
    scene = make_scene(lambda _now: CUT)
    scene.register("gw-1")

    AnySteps(scene.journal).verify()

    assert scene.origin.looks == [0.0, pytest.approx(RETURN_S)]


def test_growth_of_the_origin_with_all_gateways_alive_is_reported_as_a_bypass(
    make_scene: Callable[..., Scene],
) -> None:
    scene = make_scene(lambda _now: CUT + 1)
    scene.register("gw-1")
    scene.register("gw-2")

    with pytest.raises(BypassError, match=r"orders-0 from 10 to 11\. A producer writes there without") as raised:
        AnySteps(scene.journal).verify()
    assert [(verdict.code, verdict.about, verdict.number) for verdict in raised.value.verdicts] == [
        ("past-gateways", "topic orders", 1)
    ]
