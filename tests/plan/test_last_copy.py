"""For every pair of failures that leaves one complete log alive, a command continues there. Rows differ in the cluster
that died, the time of its death, and the reconciled one.

A topic of east is mirrored to west, and east dies. Clients continue in west, by force. East is back, the
operator has done the row's steps, and then west dies.
"""

from dataclasses import replace
from typing import Literal, NamedTuple

import pytest

from ha_core.model import (
    Extent,
    Fence,
    LostTail,
    Mirror,
    MoveOperation,
    MoveRequest,
    Run,
    Scope,
    Tail,
    Topic,
    View,
)
from ha_core.model.extent import Extents, Hole, Location, check, identity, locate, open_extent
from ha_core.plan.facts.clusters import CopyFacts, PartitionEnds
from ha_core.plan.move.planner import cut_change
from tests.kit.operations import a_switch
from tests.plan.preflight_case import HERE, SOUND, Case

MIRRORED, EAST_END = 100, 120
"""Mirrored records of east, and all of them: the tail is 20 records."""
RUNS = (Run(0, 1, 60), Run(61, 62, 39))
"""With a marker at 60, which no copy has."""
Reconciled = Literal["not at all", "counted", "accepted as lost"]
WHOLE = identity("east")
IN_EAST_THRICE: Extents = (
    Extent(cluster="east", start=0, end=50, base=0, writer_epoch=0),
    Extent(cluster="east", start=50, end=70, base=51, writer_epoch=1, copied=True),
    Extent(cluster="east", start=80, end=None, base=71, writer_epoch=2),
)
"""It has been to west and back: its client offsets are not those of the log."""


class Behind(NamedTuple):
    """The state after a forced switch."""

    topic: Topic
    tails: tuple[LostTail, ...]


def forced(
    origin: str,
    target: str,
    state: Topic,
    tails: tuple[LostTail, ...],
    copy: CopyFacts | None,
    **known: int,
) -> Behind:
    """:param known: further fields of `PartitionEnds` for the log in `origin`."""
    request = MoveRequest(
        scope=Scope(topics=("orders",)), origin=origin, target=target, mode="forced", reason="it is dead", unread="wait"
    )
    operation: MoveOperation = a_switch(id=f"to-{target}", state="fenced", request=request)
    mirror = Mirror.of("orders", origin, target, "link-1", "now", "me").changed(held=operation.id)
    if copy is not None:
        operation = operation.noting(mirrored=("orders",))
    view = View(
        topics={"orders": state.changed(fence=Fence(operation=operation.id))},
        mirrors={} if copy is None else {mirror.key: mirror},
    )
    end = EAST_END if target == "east" else 101
    ends = {("orders", 0): PartitionEnds(end, seen=EAST_END, seen_age_s=1.0, **known)}
    copies = {} if copy is None else {("orders", 0): copy}
    documents = cut_change(operation, view, ends, {}, {}, copies=copies, tails=tails)
    left = tuple(document for document in documents.puts if isinstance(document, LostTail))
    (topic,) = (document for document in documents.puts if isinstance(document, Topic))
    return Behind(topic, left)


def died_first(before: Extents) -> tuple[Topic, LostTail]:
    """East has died, and clients go on in west."""
    state = Topic(name="orders", writer="east", partitions={0: before})
    behind = forced("east", "west", state, (), CopyFacts(MIRRORED, RUNS, whole=True))
    (tail,) = behind.tails
    return behind.topic, tail


def back(tail: LostTail, reconciled: Reconciled) -> LostTail:
    if reconciled == "counted":
        counted = tail.partitions[0].changed(start=MIRRORED, end=EAST_END, records=20, bytes_=2_000)
        return tail.changed(partitions={0: counted}, counted="now")
    return tail.changed(counted="now") if reconciled == "accepted as lost" else tail


def judged(topic: Topic, tail: LostTail, east_end: int = EAST_END, mode: str = "forced") -> Case:
    """Verdicts on a switch of the topic from west, which has died as well, to east."""
    there = replace(HERE, partitions=1, starts={0: 0}, ends={0: east_end})
    case = replace(SOUND, topics=(topic,), tails=(tail,), scope=Scope(topics=("orders",)), bindings=(), usage=())
    case = case.with_topic("east", there).with_topic("west", replace(there, age_s=30.0, ends={0: 130}))
    case = case.with_reach("west", reachable=False, error="timed out") if mode == "forced" else case
    more = {"unread": "wait"} if mode == "forced" else {}
    return case.asking(origin="west", target="east", mode=mode, **more)


@pytest.mark.parametrize("before", [WHOLE, IN_EAST_THRICE], ids=["never moved", "was away before"])
@pytest.mark.parametrize("reconciled", ["not at all", "counted", "accepted as lost"])
def test_a_topic_whose_copy_dies_continues_in_its_returned_cluster(before: Extents, reconciled: Reconciled) -> None:
    # Given a cluster that is back and was made no copy
    topic, tail = died_first(before)
    tail = back(tail, reconciled)
    # When its copy's cluster dies too, a forced switch back is refused by nothing
    verdicts = judged(topic, tail).judge()
    assert [one.code for one in verdicts if one.level == "error"] == []
    (verdict,) = (one for one in verdicts if one.code == "own-tail")
    assert (verdict.level, verdict.number, verdict.unit) == ("warning", 20, "offsets")
    # And mirrored records are read there, each at its offset, and those of the dead copy wait for it
    after = forced("west", "east", topic, (tail,), None).topic.partitions[0]
    assert check(after) == []
    assert open_extent(after) == Extent(
        cluster="east",
        start=open_extent(after).start,
        end=None,
        base=EAST_END,
        writer_epoch=open_extent(after).writer_epoch,
    )
    for offset in range(tail.partitions[0].client):
        was, now = locate(before, offset), locate(after, offset)
        if isinstance(was, Location) and was.extent.cluster == "east":
            assert isinstance(now, Location)
            assert (now.extent.cluster, now.physical) == ("east", was.physical)
    assert isinstance(locate(after, tail.partitions[0].client), Hole)
    assert [extent.cluster for extent in after if extent.start > tail.partitions[0].client] == ["west", "east"]


def test_records_deleted_in_the_copy_stay_deleted_in_the_returned_cluster_that_still_has_them() -> None:
    # Given a topic that was switched to its copy, in which a client has deleted records
    topic, tail = died_first(WHOLE)
    copied = [extent for extent in topic.partitions[0] if extent.copied]
    below = copied[0].start + 5
    # When the copy's cluster dies too, and the topic is switched to the cluster that is back
    after = forced("west", "east", topic, (tail,), None, deleted_below=below).topic.partitions[0]
    # Then the topic begins at the offset of the deletion
    assert after[0].cluster == "east"
    assert after[0].start == below
    assert locate(after, below) == locate(WHOLE, below)._replace(extent=after[0])


def test_a_log_that_lost_mirrored_records_is_gone_on_with_and_all_waits_for_the_copy() -> None:
    topic, tail = died_first(WHOLE)
    (verdict,) = (one for one in judged(topic, tail, east_end=80).judge() if one.code == "own-tail")
    assert "In partition 0 it lacks mirrored records: all wait for west." in verdict.text


def test_a_planned_switch_back_advises_to_reconcile_and_never_to_delete_the_log_first() -> None:
    topic, tail = died_first(WHOLE)
    (refused,) = (verdict for verdict in judged(topic, tail, mode="planned").judge() if verdict.code == "foreign-data")
    assert "`switchyard mirror reconcile east` makes it the copy again" in refused.remedy
    assert "only while west answers" in refused.remedy


def test_no_forced_switch_advises_to_delete_a_possible_last_log() -> None:
    topic, tail = died_first(WHOLE)
    strange = replace(judged(topic, tail), tails=())
    (refused,) = (verdict for verdict in strange.judge() if verdict.code == "foreign-data")
    assert "Do not delete it while west may be gone for good" in refused.remedy


def test_a_tail_keeps_the_extents_of_its_cluster() -> None:
    _, tail = died_first(IN_EAST_THRICE)
    below = tail.partitions[0].below
    assert [(extent.start, extent.end, extent.base) for extent in below] == [(0, 50, 0), (50, 70, 51), (80, 109, 71)]
    assert tail.partitions[0].client == 109
    old = Tail.model_validate({"mirrored": 5, "client": 5})
    assert old.below == ()
