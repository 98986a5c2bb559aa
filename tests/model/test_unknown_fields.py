"""Fields of a newer version survive a rewrite by this one."""

import json
import pickle
from typing import Any

import pytest

from ha_core.model import (
    Cluster,
    Document,
    Extent,
    Group,
    LastSequences,
    MigrateOperation,
    Operation,
    Topic,
    UnreadableDocumentError,
    Usage,
    Use,
    UserBindings,
    View,
)
from ha_core.operations.access.bindings_file import compare, parse
from ha_core.operations.clusters.registered import add_cluster
from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.clusters import PartitionEnds, ProducerFacts
from ha_core.plan.migration.crossing import propose_change
from ha_core.plan.move.planner import cut_change, fence_change
from ha_core.store.commits import StateChange, key_of
from ha_core.store.usage import Sighting, merge
from stack.memory_store import MemoryStore
from tests.kit.operations import a_migration

NEW: dict[str, Any] = {"new": {"a": [1, 2]}}
"""A field of a version to come."""
EXTENT = {"cluster": "east", "start": 0, "base": 0, "term": 0, **NEW}
REQUEST = {"scope": {"topics": ["t"], **NEW}, "origin": "east", "target": "west", "reason": "r", **NEW}
OPERATION = {"id": "op-1", "kind": "switch", "by": "t", "reason": "r", "started": "2026-11-22T07:00:00Z"}
MOVE = {**OPERATION, "request": REQUEST, "moves": {"topics": ["t"], **NEW}}
STORED: dict[type[Document], dict[str, Any]] = {
    Cluster: {
        "name": "east",
        "bootstrap": "h:1",
        "masked": {"since": "s", "reason": "r", "by": "b", **NEW},
    },
    UserBindings: {"user": "ann", "cluster": "east"},
    Topic: {"name": "t", "writer": "east", "partitions": {"0": [EXTENT]}, "fence": {"operation": "op-1", **NEW}},
    LastSequences: {"name": "t", "terms": {"0": 1}},
    Group: {"name": "g", "cluster": "east", "aliases": {"1:m": {"member_id": "n", "generation": 2, **NEW}}},
    Usage: {"user": "ann", "topics": {"t": [{"instance": "", "how": "fetch", "since": "s", **NEW}]}},
    Operation: MOVE,
}


def stored(kind: type[Document]) -> Any:
    return kind.from_bytes(json.dumps({**STORED[kind], **NEW}).encode(), "/somewhere")


def fields(document: Document) -> Any:
    return json.loads(document.to_bytes())


def kept(found: Any, wanted: Any) -> bool:
    """Whether everything of `wanted` is in `found`, however deep."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and kept(found[key], value) for key, value in wanted.items()
        )
    return bool(found == wanted) if not isinstance(wanted, list) else all(map(kept, found, wanted))


@pytest.mark.parametrize("kind", STORED)
def test_a_document_and_its_parts_are_written_back_with_their_unknown_fields(kind: type[Document]) -> None:
    assert kept(fields(stored(kind)), {**STORED[kind], **NEW})


def test_evidence_is_of_its_kind_and_keeps_its_unknown_fields() -> None:
    # Given stored evidence with an unknown field
    evidence = {
        "cuts": {"t": [[0, 10, 3, 1]]},
        "below": {"t": {"0": None, "1": [[7, 0, 5, 1]]}},
        "undoing": True,
        **NEW,
    }
    data = json.dumps({**MOVE, "kind": "migrate", "state": "undone", "evidence": evidence}).encode()
    # When it is read
    operation = Operation.from_bytes(data, "/operations/op-1")
    # Then known fields are typed, and all of it is written back
    assert isinstance(operation, MigrateOperation)
    assert operation.evidence.cuts["t"][0].start == 10
    assert operation.evidence.below == {"t": {0: None, 1: ((7, 0, 5, 1),)}}
    assert kept(fields(operation)["evidence"], evidence)


def test_a_move_keeps_unknown_fields_of_every_document_it_writes() -> None:
    # Given a fenced move whose documents all have unknown fields
    operation = stored(Operation)
    scope = {"topics": ("t",), "users": ("ann",)}
    operation = operation.model_copy(
        update={
            "request": operation.request.model_copy(update={"scope": operation.request.scope.model_copy(update=scope)}),
            "moves": operation.moves.model_copy(update={"groups": ("g",)}),
        }
    )
    view = View(
        topics={"t": stored(Topic)},
        groups={"g": stored(Group)},
        bindings={"ann": stored(UserBindings)},
        sequences={"t": stored(LastSequences)},
    )
    fenced = {key_of(put)[0]: put for put in fence_change(operation, view).puts}
    view = View(
        topics={"t": fenced[Topic]},  # type: ignore[dict-item]
        groups={"g": fenced[Group]},  # type: ignore[dict-item]
        bindings=view.bindings,
        sequences=view.sequences,
    )
    # When its cut is made
    producers = {("t", 0): (ProducerFacts(1 << 44, 0, 7, 1),)}
    documents = cut_change(fenced[Operation], view, {("t", 0): PartitionEnds(0, 5)}, producers, {})  # type: ignore[arg-type]
    # Then every document still has them
    written = {key_of(put)[0]: fields(put) for put in documents.puts}
    assert written.keys() == {Topic, Group, UserBindings, LastSequences, Operation}
    assert all(one["new"] == NEW["new"] for one in written.values())
    assert written[Topic]["partitions"]["0"][0] == {**EXTENT, "end": 5, "ignored": False}
    assert written[Operation]["request"]["scope"]["new"] == NEW["new"]


def test_an_extent_keeps_unknown_fields_in_every_copy_and_others_have_no_room_for_any() -> None:
    # Given an extent of a newer version beside one of this version
    topic = Topic.model_validate_json(
        json.dumps({"name": "t", "partitions": {"0": [{**EXTENT, "end": 5}, {**EXTENT, "new": None}]}}),
    )
    extent = Extent(cluster="west", start=5, base=0, writer_epoch=1)
    newer, _ = topic.partitions[0]
    # When they are changed, and go to another process
    changed = pickle.loads(pickle.dumps(newer.changed(end=4)))
    # Then unknown fields are written again
    assert changed.end == 4
    written = Topic(name="t", partitions={0: (changed, extent)})
    assert fields(written)["partitions"]["0"][0] == {**EXTENT, "end": 4, "ignored": False}
    # And an ordinary extent has no dict: gateways hold hundreds of thousands
    assert pickle.loads(pickle.dumps(extent)) == extent
    assert not hasattr(extent, "__dict__")


def test_a_wrong_value_of_an_extent_is_refused_with_its_path() -> None:
    for more in ({}, NEW):
        data = json.dumps({"name": "t", "partitions": {"0": [{**EXTENT, **more, "start": -1}]}})
        with pytest.raises(
            UnreadableDocumentError, match=r"partitions\.0\.0\.\w+\.start: .*greater than or equal to 0"
        ):
            Topic.from_bytes(data.encode(), "/topics/t")


def test_a_crossing_keeps_unknown_fields_of_a_map() -> None:
    topic = stored(Topic).model_copy(update={"fence": None})
    ends = {("t", 0): PartitionEnds(0, 5)}

    documents = propose_change(a_migration("t", state="running"), View(topics={"t": topic}), ["t"], ends, {("t", 0): 9})

    (after,) = [fields(put) for put in documents.puts if isinstance(put, Topic)]
    assert after["new"] == NEW["new"]
    assert after["partitions"]["0"][0]["new"] == NEW["new"]


def test_registering_a_cluster_again_keeps_its_unknown_fields() -> None:
    with Environment(MemoryStore(), by="test") as environment:
        # Given a cluster with unknown fields
        environment.store.commit(
            StateChange(change_id="1", puts=(stored(Cluster),), expected={(Cluster, "east"): None})
        )
        # When it is registered again with another address
        add_cluster(environment, "east", "h:2")
        # Then it has them still
        found = environment.store.read(Cluster, "east")
        assert found is not None
        assert fields(found[0]) == {**STORED[Cluster], **NEW, "bootstrap": "h:2", "schema": 1} | {
            "security": "none",
            "default": False,
            "super_users": [],
        }


def test_a_declaration_of_bindings_keeps_unknown_fields_of_a_user() -> None:
    declared = parse("bindings: {ann: {cluster: west}}", "all.yaml")

    (difference,) = compare(declared, {"ann": stored(UserBindings)})

    assert difference.after is not None
    assert fields(difference.after)["new"] == NEW["new"]
    assert difference.after.cluster == "west"


def test_merging_usage_keeps_its_unknown_fields() -> None:
    merged, _ = merge(stored(Usage), [Sighting("topic", "u", Use(how="fetch", since="s"))])

    assert kept(fields(merged), {**STORED[Usage], **NEW})
