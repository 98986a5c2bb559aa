"""Revisions of a move, document by document."""

from dataclasses import replace
from typing import Any, TypeVar

import pytest

from ha_core.model import (
    Extent,
    Fence,
    Group,
    LastSequences,
    Member,
    MoveRequest,
    MoveSet,
    Operation,
    Scope,
    SwitchOperation,
    Topic,
    UserBindings,
    View,
)
from ha_core.model.evidence import AdoptedGroup, Cut
from ha_core.model.extent import identity, open_extent
from ha_core.model.operation import OperationState
from ha_core.model.producer import FIRST_CLIENT_ID, upstream_id
from ha_core.plan.engine.revision import Documents, MoveDamagedError
from ha_core.plan.facts.clusters import PartitionEnds, ProducerFacts
from ha_core.plan.migration.cuts import FASTEST_PER_S, MIN_AGE_S, RESERVE, UNKNOWN_RESERVE
from ha_core.plan.move.carry_over import MAX_ALIASES, MAX_SEQUENCES, carry_sequences, compose_aliases, merge_sequences
from ha_core.plan.move.planner import (
    UNDO,
    cut_change,
    fence_change,
    quiesce_change,
    remaining_steps,
    steps,
    undo_change,
)
from ha_core.store.commits import key_of
from tests.plan.maps import cut

FENCE = Fence(operation="op")
ENDS = {("t", 0): PartitionEnds(target=0, origin=10), ("t", 1): PartitionEnds(target=3, origin=0)}
D = TypeVar("D")
PLANNED = MoveRequest(scope=Scope(users=("u",)), origin="east", target="west", reason="r")
FORCED = PLANNED.model_copy(update={"mode": "forced"})
P1, P2 = FIRST_CLIENT_ID + 1, FIRST_CLIENT_ID + 2
CUTS = [Cut(0, 10, 0, 1), Cut(2, 10, 0, 1)]


def operation(state: OperationState = "planned", scope: Scope = Scope(users=("u",)), **changes: Any) -> SwitchOperation:  # noqa: B008
    request = MoveRequest(
        scope=scope, **{"origin": "east", "target": "west", "reason": "r", **changes.pop("request", {})}
    )
    moves = changes.pop("moves", MoveSet(topics=("t",), groups=("g",)))
    fields: dict[str, Any] = {"id": "op", "by": "me", "reason": "r", "started": "now"}
    return SwitchOperation(**fields, state=state, request=request, moves=moves, **changes)


def fenced_view(topic: Topic | None = None, group: Group | None = None, **more: Any) -> View:
    topic, group = topic or Topic(name="t"), group or Group(name="g")
    return View(
        topics={"t": topic.model_copy(update={"fence": FENCE})},
        groups={"g": group.model_copy(update={"fence": FENCE})},
        **more,
    )


def the(documents: Documents, kind: type[D]) -> D:
    """The one document of a kind that is put."""
    (found,) = [document for document in documents.puts if isinstance(document, kind)]
    return found


def cut_now(op: SwitchOperation, view: View, ends: Any = None, producers: Any = None, adopted: Any = None) -> Documents:
    return cut_change(op, view, ends or ENDS, producers or {}, adopted or {})


def test_a_forced_move_has_the_steps_of_a_planned_one_except_those_that_wait_for_clients() -> None:
    planned = steps(PLANNED)
    forced = steps(FORCED)

    before = ("compare", "pin", "prepare", "adopt", "hold", "level", "warm", "quiesce", "fence")
    after = ("drain", "ends", "mirrored", "offsets", "cut")
    assert planned == (*before, *after, "verify", "repoint", "reverse", "groups", "record")
    living = {"compare", "adopt", "level", "quiesce", "mirrored", "reverse"}
    assert forced == tuple(step for step in planned if step not in living)


def test_copies_are_compared_before_anything_is_changed_unless_that_is_not_wanted() -> None:
    not_wanted = PLANNED.model_copy(update={"verify": "none"})

    assert steps(PLANNED)[0] == "compare"
    assert steps(not_wanted) == steps(PLANNED)[1:]


def test_a_move_that_died_before_it_has_changed_anything_compares_again() -> None:
    assert remaining_steps(operation(), {}, {})[0] == "compare"


def test_every_written_document_is_among_those_that_the_move_named_before() -> None:
    # Given the documents that a move names, and its state when it is cut or undone
    op = operation("fenced")
    named = set(op.writes)
    view = fenced_view()
    producers = {("t", 0): [ProducerFacts(P1, 0, 5, 1)]}

    # When its revisions are made
    first = (quiesce_change(operation(), View(), ["t"]), fence_change(operation(), View()))
    for documents in (*first, cut_now(op, view, producers=producers), undo_change(op, view)):
        # Then each writes and deletes some of them only
        assert {*map(key_of, documents.puts), *documents.deletes} <= named


def test_the_fence_is_set_on_every_moving_document_and_keeps_its_other_fields() -> None:
    mapped = Topic(name="t", writer="east", partitions={0: identity("east")})
    aliased = Group(name="g", cluster="east", aliases={"1:a": Member(member_id="b", generation=2)})

    documents = fence_change(operation("running"), View(topics={"t": mapped}, groups={"g": aliased}))

    assert the(documents, Topic) == mapped.model_copy(update={"fence": FENCE})
    assert the(documents, Group) == aliased.model_copy(update={"fence": FENCE})
    assert the(documents, Operation).state == "fenced"


def test_the_transaction_fence_is_set_on_moving_topics_only_and_replaced_by_the_fence() -> None:
    mapped = Topic(name="t", writer="east", partitions={0: identity("east")})

    first = quiesce_change(operation("running"), View(topics={"t": mapped}), ["t", "elsewhere"])
    second = fence_change(the(first, SwitchOperation), View(topics={"t": the(first, Topic)}))

    assert [type(put) for put in first.puts] == [Topic, SwitchOperation]
    assert the(first, Topic) == mapped.model_copy(update={"transaction_fence": FENCE})
    assert the(first, Operation).state == "fenced"
    assert the(second, Topic) == mapped.model_copy(update={"fence": FENCE})


@pytest.mark.parametrize("kind", ["fence", "transaction_fence"])
def test_a_topic_fenced_by_another_operation_is_not_fenced(kind: str) -> None:
    other = Topic.model_validate({"name": "t", kind: {"operation": "other"}})

    with pytest.raises(MoveDamagedError, match="fenced by operation other"):
        fence_change(operation(), View(topics={"t": other}))
    with pytest.raises(MoveDamagedError, match="fenced by operation other"):
        quiesce_change(operation(), View(topics={"t": other}), ["t"])


def test_a_transaction_fence_alone_does_not_allow_a_cut() -> None:
    view = replace(fenced_view(), topics={"t": Topic(name="t", transaction_fence=FENCE)})

    with pytest.raises(MoveDamagedError, match="does not stand any more"):
        cut_now(operation("fenced"), view)


def test_a_topic_that_has_left_the_origin_is_not_fenced() -> None:
    gone = Topic(name="t", writer="north", partitions={0: identity("north")})

    with pytest.raises(MoveDamagedError, match="written in north"):
        fence_change(operation(), View(topics={"t": gone}))


def test_the_cut_writes_maps_groups_and_bindings_and_lifts_the_fences_in_one_revision() -> None:
    # When the cut of a fenced move is made
    documents = cut_now(operation("fenced"), fenced_view(), adopted={"g": AdoptedGroup(7, 3, {"old": "new"})})
    # Then its revision has map, group and binding as they are to be, without fences
    topic = the(documents, Topic)
    assert (topic.writer, topic.fence) == ("west", None)
    assert topic.partitions[0] == (
        Extent(cluster="east", start=0, end=10, base=0, writer_epoch=0),
        Extent(cluster="west", start=10, end=None, base=0, writer_epoch=1),
    )
    assert topic.partitions[1] == (Extent(cluster="west", start=0, end=None, base=3, writer_epoch=1),)
    group = the(documents, Group)
    assert (group.cluster, group.fence) == ("west", None)
    assert group.aliases["3:old"] == Member(member_id="new", generation=7)
    assert the(documents, UserBindings) == UserBindings(user="u", cluster="west")
    op = the(documents, SwitchOperation)
    assert op.state == "cut"
    assert op.evidence.cuts == {"t": (Cut(0, 10, 0, 1), Cut(1, 0, 3, 1))}


def test_each_kind_of_scope_binds_its_own_level_and_keeps_the_others() -> None:
    # Given a scope of every kind, and a user with bindings of every level
    scope = Scope(
        instances=(("u", "i"),), user_topics=(("u", "t"),), user_groups=(("u", "g"),), users=("v",), topics=("t",)
    )
    old = UserBindings(user="u", cluster="east", instances={"j": "north"}, topics={"s": "north"}, groups={"h": "north"})
    # When the cut is made
    documents = cut_now(operation("fenced", scope), fenced_view(bindings={"u": old}))
    # Then each kind has bound its level, and other bindings are kept
    assert [d for d in documents.puts if isinstance(d, UserBindings)] == [
        UserBindings(user="v", cluster="west"),
        UserBindings(
            user="u",
            cluster="east",
            instances={"j": "north", "i": "west"},
            topics={"s": "north", "t": "west"},
            groups={"h": "north", "g": "west"},
        ),
    ]


def test_a_scope_of_topics_leaves_bindings_as_they_are() -> None:
    documents = cut_now(operation("fenced", Scope(topics=("t",))), fenced_view())

    assert not [d for d in documents.puts if isinstance(d, UserBindings)]


@pytest.mark.parametrize(
    ("stored", "view", "ends", "reason"),
    [
        (operation("fenced"), View(groups={"g": Group(name="g", fence=FENCE)}), ENDS, "does not stand"),
        (
            operation("fenced"),
            fenced_view(Topic(name="t", writer="east", partitions={p: identity("east") for p in range(3)})),
            ENDS,
            r"partitions \[0, 1\] were read",
        ),
        (operation("fenced"), fenced_view(), {("t", 1): PartitionEnds(0, 0)}, r"partitions \[1\] were read"),
        (operation("fenced"), fenced_view(), {("t", 0): PartitionEnds(0)}, "needs the log end"),
        (operation("running"), fenced_view(), ENDS, "is running, not fenced"),
        (operation("undoing"), fenced_view(), ENDS, "being undone"),
    ],
)
def test_a_cut_without_its_fence_or_without_all_partitions_is_refused(
    stored: SwitchOperation, view: View, ends: dict[tuple[str, int], PartitionEnds], reason: str
) -> None:
    with pytest.raises(MoveDamagedError, match=reason):
        cut_now(stored, view, ends=ends)


def test_a_cut_at_a_log_end_below_the_open_extent_is_refused() -> None:
    moved = Topic(name="t", writer="east", partitions={0: cut(identity("west"), 5, "east", 7)})

    with pytest.raises(MoveDamagedError, match="outside its extent"):
        cut_now(operation("fenced"), fenced_view(moved), ends={("t", 0): PartitionEnds(5, 6)})


ROOM = RESERVE + int(MIN_AGE_S * FASTEST_PER_S)
"""Minimum distance from the last known end to the cut, whatever the age of that end."""


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (PartitionEnds(target=0), UNKNOWN_RESERVE),
        (PartitionEnds(target=0, known=50), 50 + UNKNOWN_RESERVE),
        (PartitionEnds(target=0, seen=50), 50 + ROOM),
        (PartitionEnds(target=0, seen=50, known=70), 70 + ROOM),
        (PartitionEnds(target=0, seen=50, known=61 + ROOM), 50 + ROOM),
        (PartitionEnds(target=0, seen=50, seen_age_s=60), 50 + ROOM),
        (PartitionEnds(target=0, seen=50, seen_age_s=3600), 50 + RESERVE + 3600 * FASTEST_PER_S),
        (PartitionEnds(target=0, seen=50, seen_age_s=3600, origin=60), 60 + RESERVE + 3600 * FASTEST_PER_S),
        (PartitionEnds(target=0, seen=50, seen_age_s=None), 50 + UNKNOWN_RESERVE),
        (PartitionEnds(target=0, seen=50, seen_age_s=60, origin=60), 60 + ROOM),
        (PartitionEnds(target=0, origin=60, known=50), 60 + ROOM),
        (PartitionEnds(target=0, origin=40, known=50), 50 + ROOM),
    ],
)
def test_a_forced_cut_is_above_every_known_seen_or_read_end(ends: PartitionEnds, expected: int) -> None:
    documents = cut_now(operation("fenced", request={"mode": "forced"}), fenced_view(), ends={("t", 0): ends})

    assert open_extent(the(documents, Topic).partitions[0]).start == expected
    assert the(documents, Topic).partitions[0][0].known_end is not None
    unknown = the(documents, SwitchOperation).evidence.unknown_ends
    assert unknown == ({"t": (0,)} if ends.origin is None else {})


def test_readers_skip_a_dead_origin_only_when_the_request_says_so() -> None:
    for unread, ignored in (("skip", True), ("wait", False)):
        op = operation("fenced", request={"mode": "forced", "unread": unread})
        extents = the(cut_now(op, fenced_view(), ends={("t", 0): PartitionEnds(0)}), Topic).partitions[0]
        assert [extent.ignored for extent in extents] == [ignored, False]


def test_a_skipped_extent_is_read_again_after_its_topic_moves_back() -> None:
    forced = operation("fenced", request={"mode": "forced"})
    topic = the(cut_now(forced, fenced_view(), ends={("t", 0): PartitionEnds(0)}), Topic)
    back = operation("fenced", request={"origin": "west", "target": "east"})

    extents = the(cut_now(back, fenced_view(topic), ends={("t", 0): PartitionEnds(12, 4)}), Topic).partitions[0]

    assert extents[0] == Extent(cluster="east", start=0, end=12, base=0, writer_epoch=0)


def test_an_undo_lifts_only_its_own_fences_and_leaves_no_empty_documents() -> None:
    # When moves are undone whose topics have no map, a map, or the fence of another one
    mapped = Topic(name="t", writer="east", partitions={0: identity("east")})
    fresh = undo_change(operation("fenced"), fenced_view())
    kept = undo_change(operation("fenced"), fenced_view(mapped, Group(name="g", cluster="east")))
    quiet = undo_change(operation("fenced"), View(topics={"t": Topic(name="t", transaction_fence=FENCE)}))
    held = undo_change(operation("fenced"), View(topics={"t": mapped.model_copy(update={"transaction_fence": FENCE})}))
    others = undo_change(operation("running"), View(topics={"t": Topic(name="t", fence=Fence(operation="other"))}))
    # Then maps are kept, documents that held a fence alone are gone, and the other fence stands
    assert fresh.deletes == ((Topic, "t"), (Group, "g"))
    assert the(kept, Topic) == mapped
    assert quiet.deletes == ((Topic, "t"),)
    assert the(held, Topic) == mapped
    assert the(kept, Group).fence is None
    assert [type(d) for d in others.puts] == [SwitchOperation]
    assert the(fresh, Operation).state == "undoing"


def test_a_cut_cannot_be_undone() -> None:
    with pytest.raises(MoveDamagedError, match="move back"):
        undo_change(operation("cut"), View())


FENCED = {"t": Topic(name="t", fence=FENCE)}
QUIET = {"t": Topic(name="t", transaction_fence=FENCE)}
ADOPTED = {"adopted": {"g": AdoptedGroup(1, 1, {})}}
FORCED_REQUEST = {"mode": "forced"}
DEAD = steps(FORCED)


@pytest.mark.parametrize(
    ("stored", "topics", "groups", "expected"),
    [
        (operation("planned"), {}, {}, steps(PLANNED)),
        (operation("running"), {}, {}, steps(PLANNED)),
        (operation("running", evidence=ADOPTED), {}, {}, UNDO),
        (operation("fenced"), FENCED, {}, UNDO),
        (operation("fenced"), QUIET, {}, UNDO),
        (operation("running"), {}, {"g": Group(name="g", fence=FENCE)}, UNDO),
        (operation("undoing"), {}, {}, UNDO),
        # The fence of a forced move stands: the steps after it remain, and it is not set again
        (operation("fenced", request=FORCED_REQUEST), FENCED, {}, ("warm", *DEAD[DEAD.index("drain") :])),
        (operation("running", request=FORCED_REQUEST), {}, {}, DEAD),
        # A move of bindings alone has no fence, but its state is past that step, so it does not start again
        (operation("fenced", request=FORCED_REQUEST, moves=MoveSet()), {}, {}, ("warm", *DEAD[DEAD.index("drain") :])),
        (operation("cut"), {}, {}, ("verify", "repoint", "reverse", "groups", "record")),
        (operation("running", evidence={"mirrored": ("t",)}), {}, {}, UNDO),
        (operation("succeeded"), {}, {}, ("release",)),
        (operation("failed"), FENCED, {}, UNDO),
    ],
)
def test_resume_follows_the_stored_state(
    stored: SwitchOperation, topics: dict[str, Topic], groups: dict[str, Group], expected: tuple[str, ...]
) -> None:
    assert remaining_steps(stored, topics, groups) == expected


def test_resume_continues_after_the_cut_when_the_maps_contain_it() -> None:
    moved = Topic(name="t", writer="west", partitions={0: cut(identity("east"), 10, "west", 0)})
    evidence = {"cuts": {"t": [[0, 10, 0, 1]]}}

    assert remaining_steps(operation("fenced", evidence=evidence), {"t": moved}, {})[0] == "verify"
    before = Topic(name="t", fence=FENCE)
    assert remaining_steps(operation("fenced", evidence=evidence), {"t": before}, {}) == UNDO


def test_resume_reports_a_fence_beside_a_published_cut_as_damage() -> None:
    with pytest.raises(MoveDamagedError, match="has cut"):
        remaining_steps(operation("cut"), {"t": Topic(name="t", fence=FENCE)}, {})


def test_last_sequences_are_those_of_the_ending_writer_epoch_under_the_clients_own_ids() -> None:
    facts = [
        ProducerFacts(upstream_id(P1, 2), 0, 57, 100),
        ProducerFacts(upstream_id(P1, 0), 0, 3, 999),
        ProducerFacts(upstream_id(P2, 2), 1, -1, 200),
        ProducerFacts(12, 0, 8, 300),
    ]

    assert merge_sequences({P1: (0, 20), P2: (0, 9)}, facts, 2) == {P1: (0, 57), P2: (0, 9)}
    assert merge_sequences({}, [ProducerFacts(P1, 0, 4, 1)], 0) == {P1: (0, 4)}


def test_last_sequences_are_bounded_and_the_newest_kept() -> None:
    facts = [ProducerFacts(FIRST_CLIENT_ID + n, 0, 1, n) for n in range(MAX_SEQUENCES + 5)]
    old = LastSequences(name="t", partitions={0: {P1: (0, 1), FIRST_CLIENT_ID + 10**6: (0, 1)}}, terms={1: 3})

    merged = carry_sequences("t", old, CUTS, {("t", 0): facts, ("t", 2): facts[:7]}, None)

    assert merged is not None
    assert len(merged.partitions[0]) == MAX_SEQUENCES
    assert next(iter(merged.partitions[0])) == FIRST_CLIENT_ID + MAX_SEQUENCES + 4
    assert P1 not in merged.partitions[0]
    assert merged.terms == {1: 3, 2: 1}, "not all of partition 0 are known"


def test_a_producer_of_records_with_old_timestamps_is_carried_over() -> None:
    """DescribeProducers reports the timestamp of the records. A producer of last year's records has just written them,
    and retries its batch at the cut like others. If it were unknown, the batch would be written twice."""
    now, year = 10**12, 365 * 86_400_000
    facts = [ProducerFacts(P1, 0, 5, now), ProducerFacts(P2, 0, 6, now - year)]

    carried = carry_sequences("t", None, CUTS, {("t", 0): facts}, now)

    assert carried is not None
    assert (carried.partitions, carried.terms) == ({0: {P1: (0, 5), P2: (0, 6)}}, {0: 1})


def test_sequences_carried_days_ago_are_not_carried_again() -> None:
    """Clients do not retry a batch of a day ago, and its own broker would not know it either."""
    # When a producer's last sequence is carried at a first cut
    now, day = 10**12, 86_400_000
    facts = [ProducerFacts(P1, 0, 5, now)]
    other = FIRST_CLIENT_ID + 99
    first = carry_sequences("t", None, CUTS, {("t", 0): facts}, now)
    # Then it is kept with the time of the cut
    assert first is not None
    assert (first.partitions, first.read_ms) == ({0: {P1: (0, 5)}}, {0: now})
    # When the next cut comes within a day, with another producer
    soon = [ProducerFacts(upstream_id(other, 1), 0, 7, now + 9)]
    second = carry_sequences("t", first, [Cut(0, 20, 0, 2)], {("t", 0): soon}, now + day)
    # Then both are carried
    assert second is not None
    assert second.partitions == {0: {other: (0, 7), P1: (0, 5)}}
    # When a third one comes days after that
    third = carry_sequences("t", second, [Cut(0, 30, 0, 3)], {("t", 0): []}, now + 3 * day)
    # Then neither is, and all are known
    assert third is not None
    assert (third.partitions, third.terms) == ({}, {0: 3})


def test_the_cut_writes_last_sequences_beside_the_map() -> None:
    old = LastSequences(name="t", partitions={1: {P2: (0, 1)}})
    documents = cut_now(
        operation("fenced"), fenced_view(sequences={"t": old}), producers={("t", 0): [ProducerFacts(P1, 0, 5, 1)]}
    )

    assert the(documents, LastSequences).partitions == {0: {P1: (0, 5)}, 1: {P2: (0, 1)}}


def test_aliases_compose_over_moves_and_forget_members_that_were_removed() -> None:
    first = Group(name="g", aliases=compose_aliases(None, AdoptedGroup(5, 3, {"a": "b", "x": "y"})))
    second = compose_aliases(first, AdoptedGroup(9, 5, {"b": "c"}))
    rebalanced = compose_aliases(first, AdoptedGroup(9, 6, {"b": "c"}))

    assert second == {"5:b": Member(member_id="c", generation=9), "3:a": Member(member_id="c", generation=9)}
    assert rebalanced == {"6:b": Member(member_id="c", generation=9)}


def test_aliases_are_bounded() -> None:
    crowd = AdoptedGroup(2, 1, {f"m{n}": f"n{n}" for n in range(MAX_ALIASES + 1)})

    assert len(compose_aliases(None, crowd)) == MAX_ALIASES
