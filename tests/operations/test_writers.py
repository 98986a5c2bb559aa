"""Rules that keep writers out of a copy, when a switch makes it the writer: without clusters."""

from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, NotReadyError, refusal
from ha_core.operations.copies.writers import open_to_writers
from ha_core.operations.engine.errors import StepFailedError
from ha_core.wire.codes import ErrorCode

SILENT = ClusterUnreachableError("west", "127.0.0.1:1", "does not answer within 5 s.")
STARTING = NotReadyError("west", "has no controller.")
REFUSED = refusal("west", "read the ACLs of topics", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def journal(error: KafkaAdminError, said: list[str]) -> Any:
    """The journal of a switch of one topic to a cluster with this answer to the question for its ACLs."""

    def access_rules(_timeout_s: float) -> None:
        raise error

    return SimpleNamespace(
        target=SimpleNamespace(cluster=SimpleNamespace(name="west"), access_rules=access_rules),
        moves=SimpleNamespace(topics=("orders",)),
        environment=SimpleNamespace(say=said.append),
    )


@pytest.mark.parametrize("error", [SILENT, STARTING])
def test_a_planned_switch_stops_if_the_target_does_not_list_its_acls(
    error: KafkaAdminError,
) -> None:
    with pytest.raises(StepFailedError, match=r"is not known: Cluster west: .* Try again when it answers"):
        open_to_writers(journal(error, []), must=True)


@pytest.mark.parametrize(("error", "must"), [(SILENT, False), (REFUSED, True), (REFUSED, False)])
def test_a_failure_is_only_reported_if_no_guard_can_exist_or_clients_cannot_wait(
    error: KafkaAdminError, must: bool
) -> None:
    said: list[str] = []
    open_to_writers(journal(error, said), must)
    assert len(said) == 1
