"""Each kind of operation answers for itself what code for all kinds asks."""

from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from ha_core.model import MoveOperation, MoveSet, Operation, Scope, SingleOperation
from ha_core.model.evidence import CrossingEvidence, MoveEvidence, SingleEvidence
from ha_core.model.mirror import MirrorPolicy
from ha_core.model.operation import AnyKind, LinkOperation, LinkRequest, OperationState
from tests.kit.operations import a_migration, a_switch

COMMON: dict[str, Any] = {"by": "test", "reason": "a test", "started": "2026-11-21T10:00:00Z"}
POLICY: dict[str, Any] = {
    "max_bytes_s": 2048,
    "settings_left_alone": ("retention.*",),
    "remove_revoked_rights": True,
}
LINK = LinkOperation(
    id="link-1",
    request=LinkRequest(scope=Scope(topics=("orders",)), origin="east", target="west", reason="a test", **POLICY),
    moves=MoveSet(topics=("orders",)),
    **COMMON,
)
MASK = SingleOperation(id="mask-1", kind="mask", evidence=SingleEvidence(about=("cluster:east",)), **COMMON)


@pytest.mark.parametrize("state", get_args(OperationState))
def test_a_move_moves_its_topics_from_its_fence_until_it_is_undone(state: OperationState) -> None:
    begun = state not in {"planned", "running", "undone"}

    assert bool(a_migration(state=state).moving) is begun  # topics may have crossed over before it is undone
    assert bool(a_switch(state=state).moving) is (begun and state != "undoing")
    assert LINK.changed(state=state).moving == MASK.changed(state=state).moving == ()


def test_a_crossing_is_to_end_some_time_after_it_was_opened() -> None:
    opened = CrossingEvidence(opened="2026-11-21T10:00:00Z")
    limited = a_migration(evidence=opened)
    limited = limited.changed(request=limited.request.changed(finish_after_s=90.0))

    assert limited.ends_at == datetime(2026, 11, 21, 10, 1, 30, tzinfo=UTC)
    assert limited.changed(evidence=CrossingEvidence()).ends_at is None
    for longest in (1e12, float("inf")):
        ends_at = limited.changed(request=limited.request.changed(finish_after_s=longest)).ends_at
        assert ends_at is not None
        assert ends_at.year > 2100
    assert a_migration(evidence=opened).ends_at is None
    assert [one.ends_at for one in (a_switch(), LINK, MASK)] == [None] * 3


def test_only_moves_have_the_evidence_of_a_move_and_may_be_forced() -> None:
    switch = a_switch(evidence=MoveEvidence(mirrored=("orders",)))

    assert switch.move_evidence.mirrored == ("orders",)
    assert MASK.move_evidence == MoveEvidence()
    assert switch.changed(request=switch.request.changed(mode="forced")).forced
    assert not any(one.forced for one in (switch, LINK, MASK))


def test_a_kind_has_a_fence_or_crosses_or_is_one_revision_or_does_none_of_these() -> None:
    kinds: tuple[type[Operation], ...] = get_args(AnyKind)

    assert [kind.__name__ for kind in kinds if kind.ATOMIC] == ["SingleOperation"]
    assert [kind.__name__ for kind in kinds if kind.FENCES] == ["SwitchOperation"]
    assert [kind.__name__ for kind in kinds if kind.CROSSES] == ["MigrateOperation"]
    assert all(issubclass(kind, MoveOperation) for kind in kinds if not kind.ATOMIC)


def test_the_policy_of_a_mirror_is_that_of_its_request() -> None:
    assert LINK.request.policy == POLICY
    assert MirrorPolicy(**LINK.request.policy).policy == POLICY
