"""Mirrored topics are read from their copies under the source's offsets; records missing there, from the source."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.client_zones import ClientZones
from gateway.model.copies import DOUBTED_S, merged_reports
from gateway.model.topology import Topology
from gateway.session.commands import Refresh
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import (
    CopiedMirror,
    CopiedPartition,
    Extent,
    Mask,
    Mirror,
    MirrorCopies,
    Run,
    Topic,
    UserBindings,
    View,
)
from ha_core.model.extent import identity
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, entry, fetch, fetched
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk, snapshot, topology

MIRROR = Mirror.of("orders", "east", "west", "l1", "2026-01-01T00:00:00Z", "test")
RUNS = (Run(10, 100, 5), Run(20, 105, 5), Run(25, 112, 5))
"""The source's [10, 15) and [20, 30). In the copy, the marker of a copier is at 110 and 111."""
NOTHING_KNOWN = -1


def pinned(*more: Extent) -> Topic:
    return Topic(name="orders", writer="east", partitions={0: (*more, *identity("east"))})


def seen(
    *,
    read: str | None = "west",
    topic: Topic | None = None,
    mirrors: Iterable[Mirror] = (MIRROR,),
    zone: str = "",
    zones: dict[str, str] | None = None,
    masked: str = "",
    away: str = "",
    revision: int = 1,
) -> Snapshot:
    """The state: `orders` is in the east and has a copy in the west, from which the client reads."""
    mask = Mask(since="2026-01-01T00:00:00Z", reason="fire", by="ops")
    clusters = {
        name: cluster.changed(zone=(zones or {}).get(name), masked=mask if name == masked else None)
        for name, cluster in CLUSTERS.items()
    }
    bindings = {} if read is None else {"anonymous": UserBindings(user="anonymous", read=read)}
    topics = {"orders": topic or pinned()}
    view = View(revision, clusters, bindings, topics, mirrors={mirror.key: mirror for mirror in mirrors})
    leaders = {"orders": {0: 1, 1: 1}, "other": {0: 1}}
    found = topology(east=leaders, west=leaders)
    parts = {name: replace(cluster, reachable=name != away) for name, cluster in found.clusters.items()}
    return replace(snapshot(view, Topology(parts)), zone=zone)


def reader(
    state: Snapshot | None = None,
    runs: tuple[Run, ...] = RUNS,
    end: int = 31,
    level: bool = True,
    link: str = "l1",
    start: int = 0,
) -> Talk:
    talk = Talk(state or seen(), Port("east", 1))
    tell(talk, runs, end, level, link, start=start)
    return talk


def tell(
    talk: Talk,
    runs: tuple[Run, ...] = RUNS,
    end: int = 31,
    level: bool = True,
    link: str = "l1",
    slots: int = 1,
    start: int = 0,
) -> None:
    copied_partitions = {0: CopiedPartition.of(end, level, runs, start)}
    mirrors = (CopiedMirror(mirror="orders@west", link=link, partitions=copied_partitions),)
    documents = [MirrorCopies(slot=n, job="j", mirrors=mirrors) for n in range(slots)]
    talk.copies.learn(merged_reports(documents, talk.copies.reports))


def asks(talk: Talk, offset: int, **more: Any) -> None:
    talk.ask(FETCH, 12, {**fetch(("orders", 0, offset)), **more})


def offsets(answer: dict[str, Any]) -> list[int]:
    records = entry(answer)["records"] or b""
    return [found.base_offset for found in batches(records, 0, len(records))]


def read_in_source(talk: Talk, offset: int) -> bool:
    """True if a fetch at that offset goes to the source, unchanged."""
    asks(talk, offset)
    assert not talk.asked(WEST)
    found = talk.asked(EAST)
    if found:
        talk.answer(EAST, found[0], fetched(("orders", 0, 99, batch(offset))))
        assert offsets(talk.answers()[-1]) == [offset]
    return bool(found)


# -- records in the copy --------------------------------------------------------------------------------------------


def test_records_in_the_copy_are_read_there_under_the_sources_offsets() -> None:
    # Given a reader of a copy with two gaps, one of the source and one of the copy
    talk = reader()
    # When it asks for records of the first run
    asks(talk, 12)
    # Then only the copy is asked
    assert not talk.asked(EAST)
    (request,) = talk.asked(WEST)
    assert request.partition["fetch_offset"] == 102
    # And all records have the source's offsets, without the markers of copiers
    given = [batch(100, count=5), batch(105, count=5), batch(110), batch(111), batch(112, count=5), batch(117)]
    talk.answer(WEST, request, fetched(("orders", 0, 118, b"".join(given))))
    (answer,) = talk.answers()
    assert offsets(answer) == [10, 20, 25]
    # And the log ends for the reader at the known end of the copy
    assert [entry(answer)[name] for name in ("high_watermark", "last_stable_offset")] == [30, 30]
    assert entry(answer)["error_code"] == entry(answer)["log_start_offset"] + 1 == 0
    assert not entry(answer)["aborted_transactions"]


@pytest.mark.parametrize(
    ("start", "offset", "there"), [(0, 17, 105), (13, 13, 103)], ids=["after a gap", "the source's first record"]
)
def test_a_position_is_read_at_its_place_in_the_copy(start: int, offset: int, there: int) -> None:
    talk = reader(start=start)
    asks(talk, offset)
    assert talk.asked(WEST)[0].partition["fetch_offset"] == there


def test_bytes_from_copies_are_counted_by_their_cluster() -> None:
    talk = reader()
    asks(talk, 10)
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 118, batch(100, count=5) + batch(117))))
    assert talk.session.context.shared.counts.mirror_fetch_bytes == {"west": len(batch())}


@pytest.mark.parametrize(
    ("client", "gateway", "cluster", "counted"),
    [("b", "b", "b", True), ("a", "b", "b", False), ("b", "b", "a", False), ("", "", "", False)],
)
def test_bytes_from_copies_are_near_if_client_gateway_and_cluster_are_known_to_be_in_one_zone(
    client: str, gateway: str, cluster: str, counted: bool
) -> None:
    talk = reader(seen(zone=gateway, zones={"west": cluster} if cluster else {}))
    talk.session.context.shared = talk.session.context.shared._replace(zones=ClientZones(otherwise=client))
    asks(talk, 10)
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 118, batch(100, count=5) + batch(117))))
    counts = talk.session.context.shared.counts
    assert counts.mirror_fetch_bytes == {"west": len(batch())}
    assert counts.mirror_fetch_near_bytes == ({"west": len(batch())} if counted else {})


@pytest.mark.parametrize("offset", [0, 9])
def test_records_below_the_first_known_run_are_read_from_the_source(offset: int) -> None:
    assert read_in_source(reader(), offset)


@pytest.mark.parametrize("deleted", [13, 30])
def test_records_that_the_source_has_deleted_are_not_read_from_its_copy(deleted: int) -> None:
    # Given a source whose log starts above some records of the copy, or above all of them
    talk = reader(start=deleted)
    # When a reader asks for a deleted record, then the request goes to the source
    asks(talk, 12)
    assert talk.asked(EAST)
    assert not talk.asked(WEST)


# -- the end of the copy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "end"), [(30, 30), (31, 31), (40, NOTHING_KNOWN)])
def test_a_reader_at_or_above_the_end_of_the_copy_waits_as_for_records_to_come(offset: int, end: int) -> None:
    talk = reader()
    asks(talk, offset)
    # Then no cluster is asked, and the answer is delayed
    assert not talk.asked(EAST) + talk.asked(WEST) + talk.answers()
    talk.wait(0.5)
    (answer,) = talk.answers()
    assert (entry(answer)["error_code"], offsets(answer), entry(answer)["high_watermark"]) == (0, [], end)
    # When more is copied
    tell(talk, (*RUNS, Run(31, 117, 20)), 51)
    asks(talk, offset)
    # Then it is read, in its place
    assert talk.asked(WEST)[0].partition["fetch_offset"] == 117 + max(offset - 31, 0)


def test_a_reader_of_several_partitions_does_not_wait_long_for_one_while_another_ones_copy_grows() -> None:
    talk = reader()
    talk.ask(FETCH, 12, {**fetch(("orders", 0, 30), ("other", 0, 5)), "max_wait_ms": 30_000})
    (request,) = talk.asked(EAST)
    assert request.body["max_wait_ms"] == 500
    assert [topic["topic"] for topic in request.body["topics"]] == ["other"]


def test_a_lagging_copy_is_not_awaited() -> None:
    talk = reader(level=False)
    assert read_in_source(talk, 30)
    assert read_in_source(talk, 40)
    # But its records are read there
    asks(talk, 29)
    assert talk.asked(WEST)


def test_readers_of_an_unavailable_source_get_the_copied_records_and_then_wait() -> None:
    talk = reader(seen(away="east"), level=False)
    asks(talk, 29)
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 117, batch(116))))
    assert offsets(talk.answers()[0]) == [29]
    asks(talk, 30)
    talk.wait(0.5)
    assert (entry(talk.answers()[0])["error_code"], talk.asked(EAST)) == (0, [])


# -- records read from the source -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        seen(read=None),
        seen(mirrors=()),
        seen(mirrors=[MIRROR.changed(held="switch-1")]),
        seen(masked="west"),
        seen(away="west"),
        seen(read="nearest"),
        seen(read="nearest", zone="b", zones={"east": "a"}),
        seen(read="nearest", zone="b", zones={"east": "b", "west": "b"}),
    ],
    ids=["unbound", "unlinked", "held", "masked", "away", "no zone", "no copy there", "the source is near"],
)
def test_without_a_copy_the_source_is_read(state: Snapshot) -> None:
    assert read_in_source(reader(state), 12)


def test_the_nearest_copy_is_the_one_in_the_gateways_zone() -> None:
    talk = reader(seen(read="nearest", zone="b", zones={"east": "a", "west": "b"}))
    asks(talk, 12)
    assert talk.asked(WEST)


@pytest.mark.parametrize(
    "told", [{"link": "an older one"}, {"runs": ()}, {"runs": (Run(10, 100, 5), Run(5, 105, 5))}], ids=str
)
def test_a_report_of_another_mirror_or_an_impossible_one_is_ignored(told: dict[str, Any]) -> None:
    assert read_in_source(reader(**told), 12)


def test_a_damaged_map_is_refused_whatever_is_copied() -> None:
    damaged = Topic(name="orders", partitions={1: identity("east")})
    talk = reader(seen(topic=damaged))
    asks(talk, 12)
    assert entry(talk.answers()[0])["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_reader_changes_to_the_source_and_back_without_duplicates_or_gaps() -> None:
    # Given a reader of the copy
    talk = reader()
    read = list[int]()

    def go_on() -> None:
        asks(talk, read[-1] + 1 if read else 10)
        for lane, shift in ((WEST, 90), (EAST, 0)):
            for request in talk.asked(lane):
                at = request.partition["fetch_offset"]
                talk.answer(lane, request, fetched(("orders", 0, 999, batch(at) + batch(at + 1))))
                found = offsets(talk.answers()[0])
                read.extend(found)
                assert found == [at - shift, at - shift + 1]

    tell(talk, (Run(10, 100, 20),))
    go_on()
    # When the job stops reporting, and reports again, and an operation holds the copy for itself
    talk.copies.learn({})
    go_on()
    tell(talk, (Run(10, 100, 20),))
    go_on()
    talk.follow(seen(mirrors=[MIRROR.changed(held="switch-1")], revision=2))
    go_on()
    talk.follow(seen(revision=3))
    go_on()
    # Then it has read on
    assert read == list(range(10, 20))


def test_a_cut_to_the_copy_is_read_by_the_map() -> None:
    # Given a reader at the end of the copy, which is the topic's writer now
    talk = reader(runs=(Run(0, 100, 30),), end=30)
    cut = (
        Extent(cluster="west", start=0, end=30, base=100, writer_epoch=0, copied=True),
        Extent(cluster="west", start=30, base=131, writer_epoch=1),
    )
    topic = Topic(name="orders", writer="west", partitions={0: cut})
    # When it has not refreshed metadata yet
    talk.follow(seen(topic=topic, mirrors=(), revision=2))
    asks(talk, 29)
    assert talk.asked(WEST)[0].partition["fetch_offset"] == 129
    talk = reader(seen(topic=topic, mirrors=()))
    asks(talk, 30)
    assert talk.asked(WEST)[0].partition["fetch_offset"] == 131


def test_no_reader_skips_records_in_a_third_cluster_between_two_extents_of_the_source() -> None:
    # Given a source that was away for a while
    extents = (
        Extent(cluster="east", start=0, end=20, base=0, writer_epoch=0),
        Extent(cluster="west", start=20, end=25, base=7, writer_epoch=1),
        Extent(cluster="east", start=25, base=20, writer_epoch=2),
    )
    talk = reader(
        seen(topic=Topic(name="orders", writer="east", partitions={0: extents})), (Run(0, 100, 15), Run(20, 115, 9))
    )
    # When its reader is above the copied records of the first extent
    asks(talk, 17)
    # Then it reads all of that extent at the source, and the next one in its own cluster
    assert talk.asked(EAST)[0].partition["fetch_offset"] == 17
    talk = reader(talk.session.context.snapshot, (Run(0, 100, 15), Run(20, 115, 9)))
    asks(talk, 20)
    assert talk.asked(WEST)[0].partition["fetch_offset"] == 7


# -- a copy that fails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        fetched(("orders", 0, -1, b""), error=int(ErrorCode.OFFSET_OUT_OF_RANGE)),
        fetched(("orders", 0, -1, b""), error=int(ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        fetched(("orders", 0, 118, b"")),
        fetched(("orders", 0, 118, batch(117))),
        fetched(("orders", 0, 118, batch(103, count=9))),
    ],
    ids=["out of range", "not the leader", "compacted", "beyond the known end", "through the end of a run"],
)
def test_a_copy_that_does_not_return_its_records_is_left_alone_for_a_while(answer: dict[str, Any]) -> None:
    talk = reader()
    asks(talk, 12)
    talk.answer(WEST, talk.asked(WEST)[0], answer)
    # Then the reader sees no error, and continues at the source
    talk.wait(0.1)
    (said,) = talk.answers()
    assert (entry(said)["error_code"], offsets(said), entry(said)["high_watermark"]) == (0, [], NOTHING_KNOWN)
    assert read_in_source(talk, 12)
    # And later at the copy again
    talk.wait(DOUBTED_S)
    asks(talk, 13)
    assert talk.asked(WEST)


def test_a_copy_whose_broker_is_lost_does_not_break_its_readers_connection() -> None:
    talk = reader()
    asks(talk, 12)
    talk.asked(WEST)
    talk.lose(WEST)
    talk.wait(0.1)
    assert talk.closed is None
    assert entry(talk.answers()[0])["error_code"] == 0
    assert Refresh() in talk.others
    assert read_in_source(talk, 12)


def test_limits_used_up_by_other_partitions_are_not_the_copys_fault() -> None:
    talk = reader()
    asks(talk, 12)
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 118, batch(100, count=5)[:40])))
    assert offsets(talk.answers()[0]) == []
    asks(talk, 12)
    assert talk.asked(WEST)


def test_records_from_a_copy_are_not_returned_if_the_topics_map_has_changed() -> None:
    talk = reader()
    asks(talk, 12)
    (request,) = talk.asked(WEST)
    later = (Extent(cluster="east", start=1000, base=0, writer_epoch=1),)
    talk.follow(seen(topic=Topic(name="orders", writer="east", partitions={0: later}), revision=2))
    talk.answer(WEST, request, fetched(("orders", 0, 118, batch(100, count=5))))
    assert offsets(talk.answers()[0]) == []


def test_two_reports_about_one_partition_are_merged() -> None:
    talk = reader()
    tell(talk, slots=2)
    asks(talk, 12)
    assert talk.asked(WEST)
