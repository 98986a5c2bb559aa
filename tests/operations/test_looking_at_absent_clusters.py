"""Logs of a returned cluster: what is missing, what cannot be judged yet, and what is held."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from ha_core.kafka.facts import LogEnds
from ha_core.operations.engine.cluster_admins import logs_there
from ha_core.plan.absence.decision import LogHeld, Unsettled


class Returned:
    """It has one topic of three partitions: the first is replicated, the second is not, the third has no leader."""

    cluster = SimpleNamespace(name="east")

    def topics(self, names: Collection[str], **_: Any) -> dict[str, Any]:
        ends = {0: LogEnds(3, 8, 9, 9, 1, 1), 1: LogEnds(0, 5, 5, 9, 1, 1)}
        return {name: SimpleNamespace(partitions=3, ends=ends) for name in names if name == "orders"}


def test_a_log_without_a_leader_or_with_lagging_replicas_is_not_taken_for_a_short_one() -> None:
    found = logs_there(Returned(), [("orders", 0), ("orders", 1), ("orders", 2)])  # type: ignore[arg-type]
    assert found["orders", 0] == LogHeld(start=3, end=9, last_stable=8)
    assert found["orders", 1] == Unsettled("its replicas in east have not caught up yet")
    assert found["orders", 2] == Unsettled("no leader in east answers for it yet")


def test_a_topic_or_partition_that_the_cluster_does_not_have_is_gone() -> None:
    """A topic that was created again with fewer partitions has lost the others for good."""
    found = logs_there(Returned(), [("orders", 3), ("bills", 0)])  # type: ignore[arg-type]
    assert found == {("orders", 3): None, ("bills", 0): None}
