"""Further mirrors that a forced cut has ended: their copiers, and what keeps writers out of their copies."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.kafka.takeover import CopyPartition
from ha_core.model import GatewayRecord, Mirror
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import NotServedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.plan.mirror.copy_guard import guards
from stack.memory_store import MemoryStore
from tests.kit.access_rules import Rules
from tests.kit.operations import a_switch

MIRROR = Mirror.of("orders", "east", "north", "link", "2026-01-01T00:00:00Z", "test")


class Cluster(Rules):
    """With a copy of one partition, whose copiers can be fenced."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.fenced: list[CopyPartition] = []

    def topics(self, names: Collection[str], **_: Any) -> dict[str, SimpleNamespace]:
        return {name: SimpleNamespace(partitions=1) for name in names}

    def leaderships(self, partitions: Collection[object], *_: object) -> dict[object, object]:
        return dict.fromkeys(partitions)

    def fence(self, copy: CopyPartition) -> None:
        self.fenced.append(copy)


def test_copiers_of_ended_mirrors_are_refused_and_their_guards_go_also_where_a_gateway_does_not_serve_the_cut(
    environment: Environment, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a forced cut that has ended the mirror of a third cluster too, and a gateway that does not follow it
    clusters = {name: Cluster(name) for name in ("east", "west", "north")}
    north = clusters["north"]
    north.there = {*guards(["orders", "bills"])}
    monkeypatch.setattr("ha_core.operations.copies.taken.admin_of", lambda _, name: clusters[name])
    monkeypatch.setattr("ha_core.operations.copies.writers.admin_of", lambda _, name: clusters[name])
    monkeypatch.setattr("ha_core.operations.engine.journal.admin_of", lambda _, name: clusters[name])
    monkeypatch.setattr("ha_core.operations.move.switch_steps.apply_source_settings", lambda _: None)
    clock = [0.0]
    environment.monotonic, environment.sleep = lambda: clock[0], lambda s: clock.append(clock.pop() + s)
    store.client().register_gateway(GatewayRecord(id="gw-1", host="h", port=1, node_id=1, revision=0))
    evidence = {"mirrored": ("orders",), "also_mirrored": {"orders": (MIRROR,)}}
    operation = a_switch(state="cut", revision=1, evidence=evidence)
    journal = Journal(environment, operation, environment.store.create_operation(operation, []))
    # When it is verified, which fails and ends the operation
    with pytest.raises(NotServedError):
        SwitchSteps(journal).verify()
    assert journal.operation.state == "failed"
    # Then the cluster refuses who copies still, and lets writers in, to this topic and no other one
    assert [copy.key for copy in north.fenced] == [("orders", 0)]
    assert north.there == {*guards(["bills"])}
