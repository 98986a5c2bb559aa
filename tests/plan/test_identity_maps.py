"""Maps that keep everybody in the origin while a copy exists in the target."""

from typing import Any

import pytest

from ha_core.model import Fence, MoveRequest, MoveSet, Scope, SwitchOperation, Topic, View
from ha_core.model.evidence import MoveEvidence
from ha_core.model.extent import append, identity
from ha_core.model.operation import OperationState
from ha_core.plan.engine.revision import Documents, MoveDamagedError
from ha_core.plan.facts.clusters import PartitionEnds
from ha_core.plan.migration.crossing import propose_change
from ha_core.plan.move.identity_maps import pin_change, pinned_map, to_pin, unpin_change
from ha_core.plan.move.planner import cut_change
from tests.kit.operations import a_migration

TOPICS = ("new", "old", "own")
OLD = Topic(name="old", writer="east", partitions={0: append(append(identity("east"), "west", 4, 0), "east", 9, 4)})
REQUEST = MoveRequest(scope=Scope(topics=TOPICS), origin="east", target="west", reason="r")


def operation(state: OperationState = "planned", topics: tuple[str, ...] = TOPICS, **evidence: Any) -> SwitchOperation:
    fields: dict[str, Any] = {"id": "op", "by": "me", "reason": "r", "started": "now"}
    moves = MoveSet(topics=topics)
    return SwitchOperation(**fields, state=state, request=REQUEST, moves=moves, evidence=MoveEvidence(**evidence))


def topics_in(documents: Documents) -> dict[str, Topic]:
    return {put.name: put for put in documents.puts if isinstance(put, Topic)}


def operation_in(documents: Documents) -> SwitchOperation:
    (document,) = [put for put in documents.puts if isinstance(put, SwitchOperation)]
    return document


def test_pinning_gives_topics_without_a_map_one_that_keeps_them_in_the_origin() -> None:
    # Given a topic that was moved before, and two that were not
    view = View(topics={"old": OLD})
    # When the operation keeps everybody in the origin
    documents = pin_change(operation(), view, {"new": 2, "own": 1, "old": 1})
    # Then the two get maps, and that revision notes their names
    assert to_pin(operation(), view) == ("new", "own")
    assert topics_in(documents) == {"new": pinned_map("east", "new", 2), "own": pinned_map("east", "own", 1)}
    assert topics_in(documents)["new"].partitions == {0: identity("east"), 1: identity("east")}
    assert operation_in(documents).evidence.pinned == ("new", "own")
    assert operation_in(documents).state == "running"


def test_many_topics_are_pinned_in_several_revisions() -> None:
    first = pin_change(operation(), View(), {"new": 1})

    second = pin_change(operation_in(first), View(topics=topics_in(first)), {"new": 1, "own": 1})

    assert topics_in(second).keys() == {"own"}
    assert operation_in(second).evidence.pinned == ("new", "own")


def test_a_topic_fenced_by_another_operation_is_not_pinned() -> None:
    fenced = Topic(name="new", fence=Fence(operation="other"))

    with pytest.raises(MoveDamagedError, match="fenced"):
        pin_change(operation(), View(topics={"new": fenced}), {"new": 1})


def test_unpinning_deletes_only_the_maps_of_topics_whose_copy_is_gone() -> None:
    # Given three topics, two with a map from the operation
    view = View(topics={"old": OLD, "new": pinned_map("east", "new", 1), "own": pinned_map("east", "own", 1)})
    # When only one of the copies could be deleted
    documents = unpin_change(operation("undoing", pinned=["new", "own"]), view, ("new", "old"))
    # Then only that topic is without a map again
    assert documents.deletes == ((Topic, "new"),)
    assert operation_in(documents).evidence.pinned == ("own",)


def test_unpinning_keeps_maps_with_a_move_or_a_fence() -> None:
    moved = Topic(name="new", writer="west", partitions={0: append(identity("east"), "west", 5, 0)})
    fenced = pinned_map("east", "own", 1).model_copy(update={"fence": Fence(operation="other")})

    documents = unpin_change(
        operation("running", pinned=["new", "own"]), View(topics={"new": moved, "own": fenced}), ("new", "own")
    )

    assert documents.deletes == ()


@pytest.mark.parametrize("evidence", [{"pinned": ["new"]}, {"created": ["new"]}])
def test_a_cut_to_a_copy_made_for_the_move_is_refused_when_the_copy_is_not_empty(evidence: dict[str, Any]) -> None:
    # Given a copy that a producer has written to since it was created
    ends = {("new", 0): PartitionEnds(target=17, origin=40)}
    fenced = pinned_map("east", "new", 1).model_copy(update={"fence": Fence(operation="op")})
    behind_the_fence = operation("fenced", ("new",), **evidence)
    ahead_of_the_log = a_migration("new", state="running", evidence=evidence)
    # When the cut is about to be published, under a fence or ahead of the log
    # Then it is refused: records written there are in no extent
    with pytest.raises(MoveDamagedError, match="ends at 17 in west, where it was empty"):
        cut_change(behind_the_fence, View(topics={"new": fenced}), ends, {}, {})
    with pytest.raises(MoveDamagedError, match="ends at 17 in west, where it was empty"):
        propose_change(ahead_of_the_log, View(), ["new"], ends, {("new", 0): 90})


def test_a_cut_to_a_target_with_older_records_continues_at_its_log_end() -> None:
    fenced = OLD.model_copy(update={"fence": Fence(operation="op")})
    ends = {("old", 0): PartitionEnds(target=7, origin=40)}

    documents = cut_change(operation("fenced", ("old",)), View(topics={"old": fenced}), ends, {}, {})

    assert topics_in(documents)["old"].partitions[0][-1].base == 7
