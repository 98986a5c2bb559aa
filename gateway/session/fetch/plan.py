"""Fetch requests that need a plan: offsets are translated, and old records read from the cluster that holds them.

A partition is read from one extent per request: its open one (streamed, patched on the way) or a closed one (gathered,
cut off at its end). A cluster that cannot be reached is answered empty: the client waits, no record is skipped.
The brokers' answers are merged into one, in client offsets.

A high watermark that equals the position means the end of the partition: jobs that read to the end stop there. So an
answer that does not know the end has -1, which clients distinguish from an offset, or the extent's end.
"""

from itertools import takewhile
from typing import NamedTuple

from gateway.model.copies import Copies, CopyRead, Here, KnownCopy, translated
from gateway.session.commands import BrokerLane
from gateway.session.fetch.fetch_session import Gap
from gateway.session.refusal import Refusal
from gateway.session.request import Message
from gateway.session.routes import Routes
from ha_core.model import Extent, Topic, View
from ha_core.model.extent import Hole, Location, locate
from ha_core.plan.facts.clusters import Partition
from ha_core.wire import APIS, ApiKey, ErrorCode
from ha_core.wire.fetch_answer import FetchShift
from ha_core.wire.records import shift_batches, trim

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
"""Errors of a cluster that METADATA does not name (for a closed extent, or above a cut ahead), which the client must
not see: it would look for a new leader, and has the right one. The partition is answered empty, and the gateway
refreshes the cluster's metadata."""

_NO_LEADER: Message = {"leader_id": -1, "leader_epoch": -1}
"""A leader's node id would be one of the broker's cluster."""


class PartitionRead(NamedTuple):
    """Place from which one partition of a mapped topic is read."""

    extent: Extent
    client_offset: int
    """Client offset in the client's request."""
    physical: int
    """Offset in the request to the cluster."""
    ahead: bool
    """The log still grows towards the extent's end: until then, the log's end is the partition's."""
    hidden: bool
    """METADATA names another leader than the one that is read here, so the client cannot look for this one: the gateway
    does, and answers the partition empty meanwhile."""
    only: bool
    """The partition has no other extent: the log's start is the client's."""
    opens: bool
    """The reader comes here from an older extent. If retention has removed the first records of this one, that is a
    gap: OFFSET_OUT_OF_RANGE would send the reader back and forth endlessly."""


class FetchPlan:
    """One fetch, split by the brokers that hold its records.

    :ivar parts: by broker: topic → partition entries with offsets of its cluster.
    :ivar local: partitions answered here.
    :ivar examined_lanes: brokers from which copies, or partitions that the client cannot look for
        (`PartitionRead.hidden`), are read: their answers have to be examined whole, and the client does not notice when
        they are lost.
    :ivar copies: partitions that are read in the copy of a mirror.
    :ivar doubted: those of them that the copy did not serve.
    :ivar gone: partitions whose extent has lost its first records: their broker is asked for the log start.
    :ivar both: a cut lies ahead, and records may appear on either side of it: no read may wait long on one side.
    :ivar refused: partitions whose errors the client should learn soon.
    :ivar leaderless: by cluster, topics with partitions that the client cannot look for and whose leader is unknown.
    :ivar undecided_cut: a partition is read at or above a cut that is only proposed: the state decides in a moment.
    :ivar real: the remote topics that are read under local names.
    :ivar undecided: all requested records may be lost, and no operator has decided yet: retrying at once is of no use.
    """

    def __init__(
        self, message: Message, routes: Routes, gaps: dict[Partition, Gap], copies: Copies, now: float
    ) -> None:
        """
        :param gaps: gaps found by earlier answers, for the offset that a partition is read at; dropped when it is left.
        :param copies: known copies of mirrors.
        """
        self._asks: dict[Partition, tuple[BrokerLane, Message]] = {}
        self.reads: dict[Partition, PartitionRead] = {}
        self.local: dict[Partition, Message] = {}
        self.order: list[Partition] = []
        self.examined_lanes: set[BrokerLane] = set()
        self.copies: dict[Partition, CopyRead] = {}
        self.doubted: list[Partition] = []
        self._away: set[Partition] = set()
        """Open extents that are read through the port of another cluster."""
        self.gone: dict[Partition, BrokerLane] = {}
        self.refused: dict[Partition, Refusal] = {}
        self.leaderless: dict[str, set[str]] = {}
        self.real: dict[str, str] = {}
        self.both = self.undecided_cut = self.undecided = False
        for topic in message["topics"]:
            name: str = topic["topic"]
            route = routes.topic(name.encode())
            if route.real is not None:
                self.real[name] = route.real
            for asked in topic["partitions"]:
                key = (name, asked["partition"])
                self.order.append(key)
                if message["replica_id"] >= 0:
                    # It would read uncommitted records, and advance high watermarks. The broker would attribute that to
                    # the gateway's account; brokers give this answer to clients without the right to act as a broker.
                    self._refuse(key, Refusal.FOLLOWER)
                elif route.no_fetch is not None or routes.here is None:
                    self._refuse(key, route.no_fetch or Refusal.NO_BROKER)
                elif route.topic is None:
                    self._asks[key] = routes.here, asked
                else:
                    copy = copies.of(route.mirror, route.topic, key[1], now) if route.mirror is not None else None
                    self._plan_partition(key, asked, route.topic, routes, gaps, copy)
        # A reader whose topic has just moved is served through its port until its client refreshes metadata. If that
        # would tie two long waits together, it is sent to the new leader at once.
        if len({lane for lane, _ in self._asks.values()}) > 1:
            for key in self._away:
                del self._asks[key], self.reads[key]
                self._refuse(key, Refusal.ELSEWHERE)
        self.parts: dict[BrokerLane, dict[str, list[Message]]] = {}
        for key, (lane, entry) in self._asks.items():
            self.parts.setdefault(lane, {}).setdefault(key[0], []).append(entry)

    def _refuse(self, key: Partition, refusal: Refusal) -> None:
        self.local[key] = empty_partition(key[1], refusal.code(APIS[ApiKey.FETCH]))
        self.refused[key] = refusal

    def _plan_partition(
        self,
        key: Partition,
        requested: Message,
        topic: Topic,
        routes: Routes,
        gaps: dict[Partition, Gap],
        copy: KnownCopy | None,
    ) -> None:
        partition, offset = key[1], requested["fetch_offset"]
        damaged = routes.writer(topic, partition) is Refusal.DAMAGED
        if offset < 0 or damaged:
            self._refuse(key, Refusal.NO_OFFSET if offset < 0 else Refusal.DAMAGED)
            return
        gap = gaps.get(key)
        if gap is not None and gap.offset != offset:
            del gaps[key]
            gap = None
        extents = topic.extents(partition)
        location = locate(extents, offset if gap is None else gap.next_offset)
        extent = location.extent
        physical = extent.base if isinstance(location, Hole) else location.physical
        if copy is not None and self._in_copy(key, requested, copy, location, routes):
            return
        closed, crosses = extent.end is not None, topic.crosses(partition)
        if not closed and crosses and topic.crossing and topic.crossing.state == "proposed":
            # No record is there yet, and a higher cut may come: a read that waited there would get the first records
            # above that cut at wrong offsets. The end of the log below the cut is not known either.
            self.local[key] = empty_partition(partition)
            self.undecided_cut = True
            return
        here = routes.here if routes.here is not None and extent.cluster == routes.here.cluster else None
        hidden = closed or crosses
        lane = routes.leader(extent.cluster, *key) if hidden or here is None else here
        if lane is None:
            if hidden:
                self.local[key] = empty_partition_of(key, extent)
                self.leaderless.setdefault(extent.cluster, set()).add(key[0])
            else:
                # METADATA names the cluster, and asks it first.
                self._refuse(key, Refusal.NO_LEADER)
            return
        if hidden:
            self.examined_lanes.add(lane)
        elif here is None:
            self._away.add(key)
        self.both = self.both or (crosses and not closed)
        follows = offset <= extent.start and any(older.start < extent.start and not older.ignored for older in extents)
        opens = follows and (gap is None or not gap.sure)
        self.reads[key] = PartitionRead(extent, offset, physical, closed and crosses, hidden, len(extents) == 1, opens)
        entry = {**requested, "fetch_offset": physical, "current_leader_epoch": -1, "last_fetched_epoch": -1}
        self._asks[key] = lane, entry

    def _in_copy(
        self, key: Partition, requested: Message, copy: KnownCopy, location: Location | Hole, routes: Routes
    ) -> bool:
        """Plans a read from the copy of a mirror, if the copy can answer for the offset."""
        within = location.extent
        offset = within.start if isinstance(location, Hole) else within.extrapolate(location.physical)
        found = copy.find(within, offset)
        if isinstance(found, Here):
            lane = routes.leader(copy.cluster, *key)
            if lane is None:
                return False
            self.examined_lanes.add(lane)
            self.copies[key] = CopyRead(copy.mirror, copy.cluster, within, found.extents, copy.end)
            entry = {**requested, "fetch_offset": found.physical, "current_leader_epoch": -1, "last_fetched_epoch": -1}
            self._asks[key] = lane, entry
        elif found is None or not (copy.level or routes.leader(within.cluster, *key) is None):
            return False
        else:
            self.local[key] = empty_partition(key[1], high_watermark=found.end)
        return True

    def in_local_names(self, answer: Message) -> Message:
        """A broker's answer, with the topics' names of the request."""
        if not self.real:
            return answer
        local = {real: name for name, real in self.real.items()}
        named = [{**topic, "topic": local.get(topic["topic"], topic["topic"])} for topic in answer["responses"]]
        return {**answer, "responses": named}

    @property
    def reads_a_growing_log(self) -> bool:
        """True if it reads a log that is being written."""
        return any(
            (read := self.reads.get(key)) is None or read.extent.end is None or read.ahead
            for key in self._asks.keys() - self.copies.keys()
        )

    def shifts(self) -> dict[tuple[bytes, int], FetchShift]:
        """Shifts for the streaming patch of an answer that reads only open extents."""
        return {
            (name.encode(), partition): FetchShift(read.extent.shift, not read.only, read.extent.start)
            for (name, partition), read in self.reads.items()
        }


def empty_partition(partition: int, error: ErrorCode = ErrorCode.NONE, high_watermark: int = -1) -> Message:
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


def empty_partition_of(key: Partition, extent: Extent | None) -> Message:
    """An empty partition whose cluster was not asked or did not answer."""
    return empty_partition(key[1], high_watermark=-1 if extent is None or extent.end is None else extent.end)


def stands(view: View, key: Partition, extent: Extent) -> bool:
    """True if offsets in the extent still mean the same."""
    topic = view.topics.get(key[0])
    extents = topic.extents(key[1]) if topic is not None and topic.mapped else ()
    return any(extent.same_stay(other) for other in extents)


def _still_read(view: View, key: Partition, read: PartitionRead | None) -> bool:
    """True if records that were read there may be returned: offsets mean the same, and the writer is the same. Records
    that a paused gateway appended above a cut have the offsets of other records.

    :param read: None: the topic had no map.
    """
    topic = view.topics.get(key[0])
    if topic is None or not topic.mapped:
        return read is None
    if read is None:
        return False
    if read.extent.end is not None:
        return stands(view, key, read.extent)
    return any(extent.end is None and extent.same_stay(read.extent) for extent in topic.extents(key[1]))


# -- the answer -----------------------------------------------------------------------------------------------------


def merge(
    plan: FetchPlan, answers: dict[BrokerLane, Message | None], gaps: dict[Partition, Gap], view: View
) -> tuple[Message, set[str]]:
    """One answer in client offsets; and the clusters whose topology is stale.

    :param answers: None where the broker was lost.
    :param view: the newest one: under a changed map, records may have other offsets, or lie above a cut.
    """
    entries = dict(plan.local)
    stale: set[str] = set()
    undecided = False
    throttle_ms = 0
    for lane, answer in answers.items():
        if answer is None:
            stale.add(lane.cluster)
            keys = ((name, entry["partition"]) for name, entries in plan.parts[lane].items() for entry in entries)
            plan.doubted += [key for key in keys if key in plan.copies]
            continue
        throttle_ms = max(throttle_ms, answer["throttle_time_ms"])
        conclusive = _conclusive(plan.parts[lane], answer)
        for topic in answer["responses"]:
            for entry in topic["partitions"]:
                key = (topic["topic"], entry["partition_index"])
                read, copy = plan.reads.get(key), plan.copies.get(key)
                if copy is not None:
                    if (found := translated(entry, copy, key in conclusive)) is None:
                        plan.doubted.append(key)
                    elif stands(view, key, copy.within):
                        entries[key] = found
                elif not _still_read(view, key, read):
                    continue
                elif read is None:
                    entries[key] = entry
                elif read.hidden and entry["error_code"] in STALE:
                    stale.add(lane.cluster)
                elif read.extent.known_end is not None and entry["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
                    # A cluster that was taken for dead at the cut is back with fewer records than it may have had. A
                    # client that learned of that would jump to another offset before an operator has declared the rest
                    # lost.
                    undecided = True
                elif read.opens and entry["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
                    plan.gone[key] = lane
                else:
                    entries[key], hollow = _translate(entry, read, key in conclusive)
                    if hollow:
                        gaps[key] = Gap(read.client_offset, read.extent.end or 0)
                    elif read.opens and entry["error_code"] == ErrorCode.NONE:
                        gaps[key] = Gap(read.client_offset, read.extent.to_client(read.physical), sure=True)
    plan.undecided = undecided and not any(entry["records"] for entry in entries.values())
    topics: dict[str, list[Message]] = {}
    for key in plan.order:
        read = plan.reads.get(key)
        entry = entries.get(key) or empty_partition_of(key, read.extent if read else None)
        topics.setdefault(key[0], []).append(entry)
    return {
        "throttle_time_ms": throttle_ms,
        "error_code": 0,
        "session_id": 0,
        "responses": [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()],
    }, stale


def _conclusive(topics: dict[str, list[Message]], answer: Message) -> set[Partition]:
    """Partitions for which an empty answer means that there are no records: those before the first one with records.
    After it, used-up limits leave partitions empty (KIP-74). Clients ask for those first, so each has its turn.
    """
    full = {
        (topic["topic"], entry["partition_index"])
        for topic in answer["responses"]
        for entry in topic["partitions"]
        if entry["records"]
    }
    order = ((topic, entry["partition"]) for topic, entries in topics.items() for entry in entries)
    return set(takewhile(lambda key: key not in full, order))


def _translate(entry: Message, read: PartitionRead, conclusive: bool) -> tuple[Message, bool]:
    """The partition in client offsets; and True if its closed extent holds no record at or above the requested offset.

    :param conclusive: if it is empty, that is because the broker has no records.
    """
    extent = read.extent
    shift, physical_end = extent.shift, extent.physical_end
    records = bytearray(entry["records"] or b"")
    end, hollow = len(records), False
    if physical_end is not None:
        end_of_log, stable = entry["high_watermark"], entry["last_stable_offset"]
        seen = min(end_of_log, stable) if stable >= 0 else end_of_log
        hollow = conclusive and entry["error_code"] == ErrorCode.NONE and seen >= physical_end
        if end:
            end = trim(records, 0, end, physical_end)
            hollow = end == 0
    shift_batches(records, 0, end, shift)
    marks = {name: _mark(extent, entry[name]) for name in ("high_watermark", "last_stable_offset")}
    if extent.end is not None and not read.ahead:
        # A log that ends before its extent (its true end is not known yet) is not the partition's end.
        marks = {name: mark if mark < 0 else extent.end for name, mark in marks.items()}
    return {
        **entry,
        **marks,
        "log_start_offset": _mark(extent, entry["log_start_offset"]) if read.only else -1,
        "aborted_transactions": [
            {**aborted, "first_offset": aborted["first_offset"] + shift}
            for aborted in entry["aborted_transactions"] or ()
            if physical_end is None or aborted["first_offset"] < physical_end
        ],
        "diverging_epoch": _moved_end(extent, entry["diverging_epoch"]),
        "current_leader": _NO_LEADER,
        "snapshot_id": _moved_end(extent, entry["snapshot_id"]),
        "preferred_read_replica": -1,
        "records": bytes(memoryview(records)[:end]),
    }, hollow


def _moved_end(extent: Extent, field: Message) -> Message:
    return {**field, "end_offset": _mark(extent, field["end_offset"])}


def _mark(extent: Extent, physical: int) -> int:
    """The client offset, within the extent; negative values stay.

    A log may begin before its extent, with the markers that copiers have left in an empty copy, for example.
    """
    return physical if physical < 0 else extent.clip(physical)
