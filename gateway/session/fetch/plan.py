"""Fetch requests that need a look: offsets translated, old records read from the cluster that holds them.

A partition is read at one place per request: its live extent (streamed, patched on the way) or a closed one (gathered,
cut off at the extent's end). What cannot be reached is answered empty: the client waits, nothing is skipped.

A high watermark that equals the position is the end of the partition: librdkafka tells its application so, whatever
else the answer says, and jobs that read to the end stop. So an answer that does not know where the end is says -1
(Java, librdkafka and others keep it apart from an offset), or an offset that is not reached yet: the extent's end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway.session.commands import BrokerLane
from gateway.session.routes import Routes, Way
from ha_core.model import Extent, Topic, View
from ha_core.model.extent import Hole, locate
from ha_core.wire import ErrorCode
from ha_core.wire.fetch import FetchShift

Key = tuple[str, int]

STALE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors of the cluster behind a closed extent. The client must not see them: it would look for a new leader, and it
has the right one. The partition is answered empty, and the gateway asks the cluster anew."""


class Gap(NamedTuple):
    """From client offset `asked` on there is no record before `resume`: readers go on there, as in a compacted log."""

    asked: int
    resume: int
    sure: bool = False
    """The log was there when it was asked: an offset out of its range is one."""


class Read(NamedTuple):
    """Where one partition of a request is read."""

    extent: Extent | None
    """None: an unmapped topic, passed as it is."""
    closed: bool
    ahead: bool
    """Its end lies ahead of the log, which still grows: until the log is there, its end is the partition's."""
    asked: int
    """Client offset that the client asked for."""
    first: bool
    """Whether the extent is the partition's only one, so that its log start is the client's."""
    physical: int = -1
    """What the cluster is asked for."""
    opens: bool = False
    """Whether a reader comes here from an older extent. If retention has taken the first records of this one, that is
    a gap: an offset out of range would send him back to the older extent's start, and here again, for ever."""


class FetchPlan:
    """What becomes of one inspected fetch."""

    __slots__ = (
        "away", "both", "closed", "gone", "local", "order", "parts", "reads", "refused", "undecided", "unreachable"
    )  # fmt: skip

    def __init__(self) -> None:
        self.parts: dict[BrokerLane, dict[str, list[dict[str, Any]]]] = {}
        """Per upstream: topic → partition entries with offsets of that cluster."""
        self.reads: dict[Key, Read] = {}
        self.local: dict[Key, dict[str, Any]] = {}
        """Partitions answered here."""
        self.order: list[Key] = []
        self.closed: set[BrokerLane] = set()
        """Upstreams from which closed extents are read: their answers have to be looked at whole."""
        self.away: dict[Key, BrokerLane] = {}
        """Open extents that are read through the port of another cluster."""
        self.gone: dict[Key, BrokerLane] = {}
        """Extents whose first records are gone: their broker has to be asked where the log starts now."""
        self.both = False
        """A cut lies ahead, and records may appear on either side of it: nothing may wait long on one side."""
        self.refused = False
        """Something is answered with an error that the client should learn soon."""
        self.unreachable = False
        """A closed extent cannot be read now."""
        self.undecided = False
        """All that was asked for lies where nobody knows yet whether it is lost: asking again at once is of no use."""


def plan(request: dict[str, Any], routes: Routes, gaps: dict[Key, Gap]) -> FetchPlan:
    """Splits a decoded fetch by the brokers that hold what it asks for.

    :param gaps: what earlier answers told of the offset that a partition is read at; forgotten when it is left.
    """
    result = FetchPlan()
    port = routes.port
    for entry in request["topics"]:
        name: str = entry["topic"]
        route = routes.topic(name.encode())
        for asked in entry["partitions"]:
            key = (name, asked["partition"])
            result.order.append(key)
            if route.fetch is Way.REFUSE or port.cluster is None or port.broker is None:
                result.local[key] = fetch_partition(key[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
                result.refused = True
            elif route.topic is None or route.fetch is Way.PASS:
                result.reads[key] = Read(None, False, False, asked["fetch_offset"], True)
                _add(result, BrokerLane(port.cluster, port.broker), name, asked)
            else:
                _place(result, routes, route.topic, key, asked, gaps)
    _keep_one_place(result)
    return result


def _keep_one_place(result: FetchPlan) -> None:
    """A reader whose topic has just moved is served through the port that it is on, and notices nothing; until its
    client asks for metadata. Where that would tie two long waits together, it is sent to the new leader at once."""
    if len(result.parts) > 1:
        for (name, partition), lane in result.away.items():
            entries = result.parts[lane][name]
            entries[:] = [entry for entry in entries if entry["partition"] != partition]
            if not entries:
                del result.parts[lane][name]
            if not result.parts[lane]:
                del result.parts[lane]
            del result.reads[name, partition]
            result.local[name, partition] = fetch_partition(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            result.refused = True


def fetch_partition(partition: int, error: ErrorCode, high_watermark: int = -1) -> dict[str, Any]:
    """One partition of a fetch answer without records."""
    return {
        "partition_index": partition,
        "error_code": int(error),
        "high_watermark": high_watermark,
        "last_stable_offset": high_watermark,
        "log_start_offset": -1,
        "aborted_transactions": [],
        "preferred_read_replica": -1,
        "records": b"",
    }


def empty(key: Key, extent: Extent | None) -> dict[str, Any]:
    """The partition without records, where its cluster was not asked or did not tell."""
    return fetch_partition(key[1], ErrorCode.NONE, -1 if extent is None or extent.end is None else extent.end)


def _add(result: FetchPlan, lane: BrokerLane, topic: str, entry: dict[str, Any]) -> None:
    result.parts.setdefault(lane, {}).setdefault(topic, []).append(entry)


def _place(
    result: FetchPlan, routes: Routes, topic: Topic, key: Key, asked: dict[str, Any], gaps: dict[Key, Gap]
) -> None:
    name, partition = key
    extents = topic.extents(partition)
    port = routes.port
    offset = asked["fetch_offset"]
    if offset < 0:
        result.local[key] = fetch_partition(partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        result.refused = True
        return
    gap = gaps.get(key)
    if gap is not None and gap.asked != offset:
        del gaps[key]
        gap = None
    place = locate(extents, offset if gap is None else gap.resume)
    if isinstance(place, Hole):
        extent, physical = place.extent, place.extent.base
    else:
        extent, physical = place
    closed = extent.end is not None
    if not closed and topic.crosses(partition) and topic.crossing and topic.crossing.state == "proposed":
        # Nothing is there yet, and a higher cut may come. A read that waited there for this one would be given the
        # first records behind that one, at offsets that are not theirs. And what other gateways acknowledge there until
        # they know of this cut is in the log, so nobody knows where that ends.
        result.local[key] = fetch_partition(partition, ErrorCode.NONE)
        return
    entry = {**asked, "fetch_offset": physical, "current_leader_epoch": -1, "last_fetched_epoch": -1}
    here = extent.cluster == port.cluster and port.broker is not None
    lane = BrokerLane(extent.cluster, port.broker or 0) if here and not closed else None
    if lane is None:
        lane = _holder(routes, extent.cluster, name, partition)
        if lane is None and not closed:
            result.local[key] = fetch_partition(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            result.refused = True
            return
    if lane is None:
        result.local[key] = empty(key, extent)
        result.unreachable = True
        return
    if closed:
        result.closed.add(lane)
    elif topic.crosses(partition):
        result.both = True
    elif not here:
        result.away[key] = lane
    follows = offset <= extent.start and any(one.start < extent.start and not one.ignored for one in extents)
    opens = follows and not (gap is not None and gap.sure)
    ahead = closed and topic.crosses(partition)
    result.reads[key] = Read(extent, closed, ahead, offset, len(extents) == 1, physical, opens)
    _add(result, lane, name, entry)


def _holder(routes: Routes, cluster: str, topic: str, partition: int) -> BrokerLane | None:
    snapshot = routes.snapshot
    known = snapshot.view.clusters.get(cluster)
    if known is None or known.masked is not None or not snapshot.topology.reachable(cluster):
        return None
    leader = snapshot.topology.leader(cluster, topic, partition)
    return None if leader is None else BrokerLane(cluster, leader)


def upstream_request(
    request: dict[str, Any], topics: dict[str, list[dict[str, Any]]], *, max_wait_ms: int, max_bytes: int
) -> dict[str, Any]:
    """The part of a fetch for one broker. Sessions are switched off: the broker would answer with what changed since
    its last answer, and that answer may have been for other offsets."""
    return {
        **request,
        "rack_id": "",
        "session_id": 0,
        "session_epoch": -1,
        "max_wait_ms": max_wait_ms,
        "max_bytes": max_bytes,
        "topics": [{"topic": topic, "partitions": entries} for topic, entries in topics.items()],
        "forgotten_topics_data": [],
    }


def shifts(result: FetchPlan) -> dict[tuple[bytes, int], FetchShift]:
    """For the streaming patch of an answer that reads live extents only."""
    return {
        (name.encode(), partition): FetchShift(read.extent.shift, log_start_unknown=not read.first)
        for (name, partition), read in result.reads.items()
        if read.extent is not None
    }


def stands(view: View, key: Key, extent: Extent) -> bool:
    """Whether offsets in the extent still mean what they did, wherever it ends by now."""
    topic = view.topics.get(key[0])
    extents = topic.extents(key[1]) if topic is not None and topic.mapped else ()
    return any(extent.same_stay(other) for other in extents)
