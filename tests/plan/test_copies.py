"""Revisions of a forced switch for topics that continue at their copies."""

from dataclasses import replace
from typing import Any

import pytest

from ha_core.model import (
    Extent,
    Fence,
    LastSequences,
    LostTail,
    Mirror,
    MoveRequest,
    MoveSet,
    Run,
    Scope,
    SwitchOperation,
    Topic,
    View,
)
from ha_core.model.evidence import Cut
from ha_core.model.extent import Extents, Hole, Location, identity, locate, open_extent
from ha_core.model.move_request import UnreadPolicy
from ha_core.model.producer import FIRST_CLIENT_ID, upstream_id
from ha_core.operations.copies.reversal import reversed_mirror
from ha_core.operations.move.outcome import ended_too, gone, left_behind, over_holes, repointed, stayed
from ha_core.plan.absence.reconciled import old_mirror
from ha_core.plan.absence.returned import unconfirmed
from ha_core.plan.engine.revision import Documents, MoveDamagedError
from ha_core.plan.facts.clusters import CopyFacts, PartitionEnds
from ha_core.plan.mirror.held_copies import also_mirrored, fitting, hold_change, to_repoint
from ha_core.plan.mirror.standby import regained
from ha_core.plan.move.carry_over import MAX_TOPIC_TRANSACTIONAL, come_back, leave_by_force
from ha_core.plan.move.planner import cut_change, undo_change
from tests.plan.maps import rows

MIRROR = Mirror.of("t", "east", "west", "link-1", "now", "me")
HELD = MIRROR.changed(held="op")
PRODUCER, OLD = FIRST_CLIENT_ID + 1, FIRST_CLIENT_ID + 2
SEEN = PartitionEnds(target=40, seen=30, seen_age_s=1.0)


def operation(unread: UnreadPolicy = "wait", **changes: Any) -> SwitchOperation:
    request = MoveRequest(
        scope=Scope(topics=("t",)), origin="east", target="west", mode="forced", reason="r", unread=unread
    )
    switch_operation = SwitchOperation(
        id="op", by="me", reason="r", started="now", state="fenced", request=request, moves=MoveSet(topics=("t",))
    )
    return switch_operation.noting(mirrored=("t",)).changed(**changes)


def view(topic: Topic | None = None, mirror: Mirror | None = HELD, **more: Any) -> View:
    topic = topic or Topic(name="t", writer="east", partitions={0: identity("east")})
    mirrors = {} if mirror is None else {mirror.key: mirror}
    return View(topics={"t": topic.changed(fence=Fence(operation="op"))}, mirrors=mirrors, **more)


def cut(
    copy: CopyFacts | None, before: View | None = None, unread: UnreadPolicy = "wait", most: int = 2000
) -> Documents:
    copies = {} if copy is None else {("t", 0): copy}
    ends = {("t", 0): SEEN}
    return cut_change(operation(unread), before or view(), ends, {}, {}, read_ms=1, copies=copies, max_extents=most)


def one(documents: Documents, kind: Any) -> Any:
    (document,) = [put for put in documents.puts if isinstance(put, kind)]
    return document


def test_copied_records_are_read_from_the_copy_and_the_rest_is_a_hole_up_to_the_cut() -> None:
    # Given a copy with a gap, whose source ended somewhere above 24
    copy = CopyFacts(24, (Run(0, 1, 10), Run(12, 13, 12)))
    # When its dead cluster is done without
    documents = cut(copy)
    # Then the map has all copied records at their offsets, and continues in the copy, above every known offset
    after = one(documents, Topic).partitions[0]
    at = open_extent(after).start
    assert rows(after) == [("west", 0, 10, 1, 0), ("west", 12, 24, 13, 0), ("west", at, None, 40, 1)]
    assert at > 3_000_000_000
    assert isinstance(locate(after, 24), Hole)
    assert locate(after, 13) == Location(after[1], 14)
    # And the mirror ends with it, and the possible lost tail is noted
    assert documents.deletes == ((Mirror, "t@west"),)
    tail = one(documents, LostTail)
    assert (tail.topic, tail.cluster, tail.target, tail.link, tail.counted) == ("t", "east", "west", "link-1", None)
    assert (tail.partitions[0].mirrored, tail.partitions[0].client) == (24, 24)


TWO_STAYS = (
    Extent(cluster="east", start=0, end=8, base=0, writer_epoch=0),
    Extent(cluster="west", start=8, end=10, base=9, writer_epoch=1),
    Extent(cluster="east", start=10, end=None, base=9, writer_epoch=2),
)


@pytest.mark.parametrize(
    ("before", "runs", "deleted", "begins"),
    [
        (identity("east"), (Run(0, 1, 24),), 10, 10),
        (identity("east"), (Run(0, 1, 24),), 22, 22),
        (identity("east"), (Run(0, 1, 24),), 30, 100),
        (TWO_STAYS, (Run(0, 1, 8), Run(9, 11, 15)), 4, 4),
        (TWO_STAYS, (Run(0, 1, 8), Run(9, 11, 15)), 9, 10),
        (TWO_STAYS, (Run(0, 1, 8), Run(9, 11, 15)), 13, 13),
    ],
)
def test_acknowledged_deletions_hold_after_the_source_dies_without_a_known_log_start(
    before: Extents, runs: tuple[Run, ...], deleted: int, begins: int
) -> None:
    # Given a copy that has all records of a source whose log start was never observed
    topic = Topic(name="t", writer="east", partitions={0: before})
    copies = {("t", 0): CopyFacts(24, runs, whole=True)}
    seen = replace(SEEN, deleted_below=deleted)
    # When a forced switch leaves the dead cluster
    documents = cut_change(operation(), view(topic), {("t", 0): seen}, {}, {}, copies=copies)
    # Then reads from the copy begin at the deletion's offset, and offsets keep their meaning
    after = one(documents, Topic).partitions[0]
    copied = [extent for extent in after if extent.copied]
    assert min((extent.start for extent in copied), default=100) == begins
    there = {run.source + n: run.target + n for run in runs for n in range(run.records)}
    for offset in (o for extent in copied for o in range(extent.start, extent.end or 0)):
        was, now = locate(before, offset), locate(after, offset)
        assert isinstance(was, Location)
        assert isinstance(now, Location)
        assert now.physical == there[was.physical]


def test_records_left_to_a_dead_source_exclude_acknowledged_deletions() -> None:
    # Given a copy that begins above its source, so that the first records are read in the source when it is back
    copies = {("t", 0): CopyFacts(24, (Run(0, 1, 24),), whole=True)}
    seen = replace(SEEN, target_start=15, deleted_below=6)
    documents = cut_change(operation(), view(), {("t", 0): seen}, {}, {}, copies=copies)
    # Then these exclude the deleted ones, even if the source forgets its log start
    first, second, _ = one(documents, Topic).partitions[0]
    assert (first.cluster, first.start, first.end, first.base) == ("east", 6, 14, 6)
    assert (second.cluster, second.start, second.base) == ("west", 14, 15)
    (noted,) = [put for put in documents.puts if isinstance(put, SwitchOperation)]
    assert noted.evidence.gone_from_copies == {"t": 8}


def test_acknowledged_deletions_hold_in_a_planned_switch_after_the_source_lost_its_log_start() -> None:
    # Given a broker that was killed before its log start was checkpointed, and that reports a lower one
    planned = operation().changed(request=operation().request.changed(mode="planned", unread=None))
    copies = {("t", 0): CopyFacts(24, (Run(0, 1, 24),), whole=True)}
    ends = {("t", 0): PartitionEnds(target=40, origin=24, origin_start=0, deleted_below=10)}
    documents = cut_change(planned, view(), ends, {}, {}, copies=copies)
    assert one(documents, Topic).partitions[0][0].start == 10


def test_offsets_without_records_below_a_forced_cut_are_noted() -> None:
    # Given a copy that ends at 24
    documents = cut(CopyFacts(24, (Run(0, 1, 24),), whole=True))
    (noted,) = [put for put in documents.puts if isinstance(put, SwitchOperation)]
    at = open_extent(one(documents, Topic).partitions[0]).start
    # Then the hole reaches from 24 to the cut, and is in the result
    assert noted.evidence.holes == {"t": {0: at - 24}}
    assert f"{at - 24:,} offsets have no record, below the cut" in over_holes(noted)
    assert over_holes(noted.noting(holes={})) == ""
    two = noted.noting(holes={"t": {0: 1_000, 1: 3_000}})
    assert "4,000 offsets have no record, below 2 cuts, 3,000 at most below one" in over_holes(two)


def test_further_mirrors_from_the_origin_end_with_the_cut_and_are_to_be_repointed() -> None:
    # Given a topic with a second mirror, a mirror of another topic, and one that an operator has ended meanwhile
    north, gone = (Mirror.of("t", "east", name, f"link-{name}", "now", "me") for name in ("north", "south"))
    other = Mirror.of("u", "east", "north", "link-3", "now", "me")
    chained = Mirror.of("t", "west", "up", "link-4", "now", "me")
    running = operation(state="running")
    others = also_mirrored(running, running.evidence.mirrored, (other, north, MIRROR, gone, chained))
    before = view()
    before = replace(before, mirrors={**before.mirrors, north.key: north, other.key: other, chained.key: chained})
    # When its dead cluster is done without
    noted = operation().noting(also_mirrored=others)
    copies, ends = {("t", 0): CopyFacts(24, (Run(0, 1, 24),))}, {("t", 0): SEEN}
    documents = cut_change(noted, before, ends, {}, {}, read_ms=1, copies=copies)
    # Then they end in that revision, and are to be repointed; a mirror of the copy that becomes the writer stays
    assert documents.deletes == ((Mirror, "t@west"), (Mirror, "t@north"))
    (entered,) = [put for put in documents.puts if isinstance(put, SwitchOperation)]
    assert to_repoint(entered, View()) == [north, gone]
    assert {(Mirror, "t@north"), (Mirror, "t@south")} <= set(noted.writes)
    # And the result names those that go on, and those that do not, with the reason and the way out
    kept_out = entered.noting(kept_out={gone.key: "it has 3 records of east that west lacks"})
    assert to_repoint(kept_out, View(mirrors={north.key: north})) == []
    assert repointed(kept_out) == "the mirrors of t in north go on from west"
    assert "mirrors of t in south (it has 3 records of east that west lacks) have ended" in ended_too(kept_out)
    assert "mirror link TOPIC --from west --to CLUSTER" in ended_too(kept_out)
    assert (repointed(entered), ended_too(entered)) == ("the mirrors of t in north, t in south go on from west", "")
    # But not where the topic stays
    stays = cut_change(noted, before, ends, {}, {}, read_ms=1, copies=copies, stay={"t": "it lost records"})
    (entered,) = [put for put in stays.puts if isinstance(put, SwitchOperation)]
    assert (stays.deletes, repointed(entered), to_repoint(entered, View())) == ((), "", [])
    # And a planned move does the same
    planned = running.changed(request=running.request.changed(mode="planned", unread="wait"))
    assert also_mirrored(planned, ("t",), (MIRROR, north)) == {"t": (north,)}


def test_a_mirror_that_is_made_again_the_other_way_leaves_the_same_settings_alone_and_is_as_fast() -> None:
    # Given a mirror that leaves settings alone and is limited, whether its switch is planned or forced
    alone = HELD.changed(settings_left_alone=("retention.*",), max_bytes_s=5_000)
    tail = one(cut(CopyFacts(24, (Run(0, 1, 24),)), view(mirror=alone)), LostTail)
    # Then so does the one the other way
    for old in (alone, old_mirror(tail)):
        new = reversed_mirror(old, "op", "now", "me")
        assert (new.settings_left_alone, new.max_bytes_s) == (("retention.*",), 5_000)


def test_no_check_of_returned_clusters_finds_anything_to_attach_again() -> None:
    after = one(cut(CopyFacts(24, (Run(0, 1, 24),))), Topic)
    assert list(unconfirmed(View(topics={"t": after}))) == []
    assert after.clusters == {"west"}


def test_last_sequences_are_those_of_the_copy_and_do_not_claim_to_be_all() -> None:
    # Given a topic that came back to east, and a copy of records of two producers from two writer epochs
    stay = Extent(cluster="east", start=100, end=None, base=90, writer_epoch=2)
    before = (Extent(cluster="east", start=0, end=50, base=0, writer_epoch=0), stay)
    topic = Topic(name="t", writer="east", partitions={0: before})
    sequences = LastSequences(name="t", partitions={0: {OLD: (0, 7)}}, terms={0: 2}, read_ms={0: 1})
    producers = {upstream_id(OLD, 0): (0, 7), upstream_id(PRODUCER, 2): (3, 11), 15: (0, 4)}
    # When it goes on at the copy
    documents = cut(CopyFacts(95, (Run(0, 0, 20),), producers), view(topic, sequences={"t": sequences}))
    # Then its gateways' producers are known by their mirrored records, and others may have written more
    after = one(documents, LastSequences)
    assert after.partitions[0] == {PRODUCER: (3, 11), OLD: (0, 7)}
    assert after.terms == {0: 2}
    assert open_extent(one(documents, Topic).partitions[0]).writer_epoch == 3
    assert one(documents, LostTail).partitions[0].client == 105


def test_a_copy_with_too_many_gaps_leaves_its_old_part_in_the_dead_cluster() -> None:
    # Given a copy with a gap after each record
    copy = CopyFacts(60, tuple(Run(2 * n, n, 1) for n in range(30)))
    # When no more than ten extents fit into the map
    after = one(cut(replace(copy), most=10), Topic)
    # Then older records wait for their cluster, up to the start of the copied part, and none is lost
    first, *copied = after.partitions[0]
    assert (first.cluster, first.start, first.end, first.known_end) == ("east", 0, 40, None)
    assert [extent.start for extent in copied[:-1]] == list(range(40, 60, 2))
    assert {extent.cluster for extent in copied} == {"west"}
    # And these are counted in the evidence
    (entered,) = [put for put in cut(copy, most=10).puts if isinstance(put, SwitchOperation)]
    assert entered.evidence.left_to_origin == {"t": 20}
    assert left_behind(entered).startswith("20 older records of t are read in east only")
    assert left_behind(operation()) == ""
    # Or is skipped, where that was asked for
    skipped = one(cut(copy, unread="skip", most=10), Topic).partitions[0]
    assert [extent.ignored for extent in skipped] == [True] + [False] * 11


@pytest.mark.parametrize("unread", ["wait", "skip"])
def test_records_that_a_copy_had_deleted_wait_for_the_dead_cluster_or_are_skipped(unread: UnreadPolicy) -> None:
    # Given a copy whose log starts at 15, of a source whose log started at 4 and ended somewhere above 24
    copy, seen = CopyFacts(24, (Run(0, 1, 24),), whole=True), replace(SEEN, origin_start=4, target_start=15)
    # When a forced switch leaves the dead cluster
    documents = cut_change(operation(unread), view(), {("t", 0): seen}, {}, {}, copies={("t", 0): copy})
    # Then the map leads to the dead cluster below the copy's start only
    first, second, last = one(documents, Topic).partitions[0]
    assert (first.cluster, first.start, first.end, first.known_end, first.ignored) == (
        ("east", 0, 14, None, unread == "skip")
    )
    assert (second.cluster, second.start, second.end, second.base, last.cluster) == ("west", 14, 24, 15, "west")
    # And the result counts the ten records that it may have, and none as left out for lack of room
    (entered,) = [put for put in documents.puts if isinstance(put, SwitchOperation)]
    assert (entered.evidence.gone_from_copies, entered.evidence.left_to_origin) == ({"t": 10}, {})
    words = "readers skip them" if unread == "skip" else "cannot be read until it is back"
    assert "west had deleted at most 10 records of t that east had" in gone(entered)
    assert words in gone(entered)
    assert gone(operation()) == ""
    # And after a switch back to that cluster, all mirrored records are read there again
    tail = one(documents, LostTail)
    again = regained((first, second, last), tail, 0, 24)
    assert [(e.cluster, e.start, e.end, e.ignored) for e in again[:-1]] == [("east", 0, 24, False)]


@pytest.mark.parametrize(("sizes", "most"), [((5, 5), 2000), ((100, 3), 17), ((100, 100, 100), 6)])
def test_the_newest_extents_of_all_copies_share_the_room_that_a_revision_has(sizes: tuple[int, ...], most: int) -> None:
    copies = {("t", p): CopyFacts(0, tuple(Run(n, n, 1) for n in range(size))) for p, size in enumerate(sizes)}
    room = 2000 if sum(sizes) == 10 else 20
    assert fitting(copies, room) == most
    assert sum(min(size, fitting(copies, room)) for size in sizes) <= room


def test_a_copy_that_was_never_begun_leaves_its_records_in_the_dead_cluster() -> None:
    documents = cut(None)
    first, last = one(documents, Topic).partitions[0]
    assert (first.cluster, first.known_end, last.cluster) == ("east", 30, "west")
    assert not [put for put in documents.puts if isinstance(put, LostTail)]
    assert documents.deletes == ((Mirror, "t@west"),)


def test_a_hold_is_refused_where_another_operation_has_it_and_given_back_by_the_undo() -> None:
    begun = operation(state="running")
    assert one(hold_change(begun, view(mirror=MIRROR)), Mirror).held == "op"
    with pytest.raises(MoveDamagedError, match="held by operation other"):
        hold_change(begun, view(mirror=MIRROR.changed(held="other")))
    with pytest.raises(MoveDamagedError, match="gone"):
        hold_change(begun, view(mirror=None))
    with pytest.raises(MoveDamagedError, match="not held any more"):
        cut(CopyFacts(0), view(mirror=MIRROR))
    assert one(undo_change(operation(), view()), Mirror) == MIRROR


def test_a_topic_with_a_damaged_copy_stays_and_the_others_move() -> None:
    # Given two topics, one with a copy in an unknown state
    moving = operation().noting(mirrored=("t", "u"))
    moving = moving.changed(moves=MoveSet(topics=("t", "u")))
    other = Mirror.of("u", "east", "west", "link-1", "now", "me").changed(held="op")
    fenced = Topic(name="u", writer="east", partitions={0: identity("east")}, fence=Fence(operation="op"))
    before = view()
    before = View(topics={**before.topics, "u": fenced}, mirrors={**before.mirrors, other.key: other})
    ends, copies = {("t", 0): SEEN, ("u", 0): SEEN}, {("t", 0): CopyFacts(24, (Run(0, 1, 24),))}
    # When the cut leaves that one out
    documents = cut_change(moving, before, ends, {}, {}, read_ms=1, copies=copies, stay={"u": "it lost records"})
    # Then only the fence and the hold of it end, and it is written down why
    puts = {(type(put), getattr(put, "name", None) or getattr(put, "key", None)): put for put in documents.puts}
    assert puts[Topic, "u"] == fenced.changed(fence=None)
    assert puts[Mirror, "u@west"] == other.changed(held=None)
    gone = puts[Topic, "t"]
    assert isinstance(gone, Topic)
    assert gone.writer == "west"
    assert documents.deletes == ((Mirror, "t@west"),)
    assert [put.topic for put in documents.puts if isinstance(put, LostTail)] == ["t"]
    entered = one(documents, SwitchOperation)
    assert entered.evidence.stayed == {"u": "it lost records"}
    assert entered.evidence.went_to_copies == ("t",)
    assert set(entered.evidence.cuts) == {"t"}
    assert stayed(entered).startswith("u stayed in east")


COORDINATED = 7
"""A transactional producer's id: the origin's coordinator has issued it."""


def test_a_forced_cut_keeps_last_sequences_of_transactional_producers_per_partition() -> None:
    # Given a copy that has something of a producer with transactions and of one without
    copy = CopyFacts(24, (Run(0, 0, 24),), {COORDINATED: (2, 9), PRODUCER: (0, 5)})
    # When its source is done without
    sequences = one(cut(copy), LastSequences)
    # Then a producer id of the source means no other producer there
    assert sequences.left_by_force == {"east": {0: {COORDINATED: (2, 9)}}}
    # And it is so too where the copy has nothing, but not where readers wait for the source
    assert one(cut(CopyFacts(0)), LastSequences).left_by_force == {"east": {0: {}}}
    assert not any(isinstance(put, LastSequences) and put.left_by_force for put in cut(None).puts)
    # And where they skip it
    assert one(cut(None, unread="skip"), LastSequences).left_by_force == {"east": {0: {}}}


def test_a_topic_that_is_written_again_where_it_had_left_by_force_has_not_left() -> None:
    # Given a partition that has left both clusters by force
    sequences = LastSequences(name="t", left_by_force={"east": {0: {}, 1: {}}, "north": {0: {}}})
    # When it is moved back to one
    back = come_back(sequences, "east", [Cut(0, 50, 0, 2)])
    # Then
    assert back is not None
    assert back.left_by_force == {"east": {1: {}}, "north": {0: {}}}
    assert come_back(back, "east", [Cut(1, 50, 0, 2)]) == sequences.changed(left_by_force={"north": {0: {}}})


def test_of_many_transactional_producers_the_newest_are_kept() -> None:
    known = {producer: (0, producer) for producer in range(MAX_TOPIC_TRANSACTIONAL)}
    cuts = [Cut(partition, 0, 0, 1) for partition in range(4)]
    left = leave_by_force("t", None, "east", cuts, dict.fromkeys(range(4), known))
    assert left is not None
    for each in left.left_by_force["east"].values():
        assert set(each) == set(range(MAX_TOPIC_TRANSACTIONAL * 3 // 4, MAX_TOPIC_TRANSACTIONAL))
    assert LastSequences.model_validate_json(left.model_dump_json()) == left
