"""Produce requests that need a look: mapped, fenced or moved topics.

Invariant: a batch is forwarded only to the cluster that the map names as the writer, under the producer id of that
writer's term; a batch that an earlier term holds is answered as the duplicate that it is, never forwarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gateway.session.produce.producer_order import ProducerOrder
from gateway.session.produce.recalled import UNKNOWN_OFFSET, Held, Known, Recalled
from gateway.session.produce.recalled import held as of_batch
from gateway.session.produce.terms import Terms, opens
from gateway.session.routes import Routes, Way
from ha_core.model import LastSequences
from ha_core.model.producer import is_gateway_id, upstream_id
from ha_core.wire import ErrorCode, RemoteProtocolError
from ha_core.wire.produce import ProduceScan
from ha_core.wire.records import Batch, batches, first_batch, rewrite_producer_id
from ha_core.wire.sequences import at_or_before, last_sequence

Key = tuple[bytes, int]


class ProduceVerdict(NamedTuple):
    refused: dict[Key, ErrorCode]
    """Partitions that are not forwarded, with their answer."""
    shifts: dict[Key, int]
    """Forwarded partitions whose answered offsets have to be raised by so much."""
    fence: str | None
    """Operation whose fence refused something, else None."""
    openers: dict[Key, tuple[int, int]]
    """Forwarded partitions whose (term, producer) is opened once the broker acknowledges."""
    early: frozenset[Key] = frozenset()
    """Refused partitions whose producer has not opened the term yet, as far as is known here."""
    offsets: Mapping[Key, int] = {}
    """Base offsets to say with partitions that are not forwarded, because an earlier term holds their batch."""
    look_up: tuple[Held, ...] = ()
    """Batches of which an earlier term knows the offset: refused until it is known here."""


def passes(scan: ProduceScan, routes: Routes) -> bool:
    """Whether everything seen so far may be forwarded as it is."""
    return routes.plain or all(routes.topic(partition[0]).produce is Way.PASS for partition in scan.partitions)


def demand_one_batch(frame: Any, scan: ProduceScan) -> None:
    """As brokers do, in every partition of a request from version 3 on: each batch is judged here, and a hundred
    megabytes of empty ones are more than a million.

    :raises RemoteProtocolError: there are more, or none that is whole.
    """
    for _, _, at, length in scan.partitions:
        if length > 0 and first_batch(frame, at, at + length, at + length) is None:
            raise RemoteProtocolError("a produce request with other than one whole batch in a partition")


def judge(
    frame: Any,
    scan: ProduceScan,
    routes: Routes,
    terms: Terms,
    order: ProducerOrder,
    recalled: Recalled,
    now: float,
) -> ProduceVerdict:
    """Decides on each partition, and rewrites the producer ids of those that are forwarded, in place.

    :param frame: buffer that holds the whole request, positions as in `scan`.
    """
    refused: dict[Key, ErrorCode] = {}
    shifts: dict[Key, int] = {}
    openers: dict[Key, tuple[int, int]] = {}
    early: set[Key] = set()
    offsets: dict[Key, int] = {}
    look_up: list[Held] = []
    fence: str | None = None
    watches = order.watches(now)
    for topic, partition, at, length in scan.partitions:
        route = routes.topic(topic)
        key = (topic, partition)
        if watches and any(order.overtakes(key, b, now) for b in batches(frame, at, at + length)):
            refused[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            look_up += _not_known(key, batches(frame, at, at + length), route.sequences, recalled, now)
            continue
        if route.produce is Way.PASS:
            continue
        if route.produce is Way.REFUSE or route.topic is None:
            refused[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            fence = route.fence or fence
            continue
        extent = route.topic.written(partition)
        elsewhere = extent.cluster != routes.port.cluster or route.topic.withheld(partition)
        if elsewhere or (not route.topic.crosses(partition) and _under_way(order, key, frame, at, length, now)):
            refused[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            continue
        if length > 0 and extent.term > 0:
            found = list(batches(frame, at, at + length))
            if any(_held(batch, route.sequences, partition) for batch in found):
                wanted = of_batch(topic, partition, found[0])
                refused[key], offsets[key] = _as_held(recalled.offset(wanted, now))
                if refused[key] is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    look_up.append(wanted)
                continue
            watched = [batch for batch in found if _watched(batch, key, extent.term, route.sequences, terms, now)]
            if not all(_opens(batch, route.sequences, partition) for batch in watched[:1]):
                refused[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER
                early.add(key)
                continue
            for batch in found:
                _rename(frame, batch, extent.term)
            if watched:
                openers[key] = (extent.term, watched[0].producer_id)
        if shift := extent.shift:
            shifts[key] = shift
    return ProduceVerdict(refused, shifts, fence, openers, frozenset(early), offsets, tuple(look_up))


def judge_head(
    frame: Any, scan: ProduceScan, end: int, routes: Routes, terms: Terms, order: ProducerOrder, now: float
) -> ProduceVerdict | None:
    """As `judge`, for a request of one partition and one batch of which only the bytes before `end` have arrived.

    None if that is not enough to decide, or if it is refused: then the whole request has to be read first.
    """
    topic, partition, at, length = scan.partitions[0]
    route = routes.topic(topic)
    key = (topic, partition)
    batch = first_batch(frame, at, end, at + length) if length > 0 else None
    if batch is None or route.produce is Way.REFUSE or order.overtakes(key, batch, now):
        return None
    if route.topic is None or route.produce is Way.PASS:
        return ProduceVerdict({}, {}, None, {})
    extent = route.topic.written(partition)
    if extent.cluster != routes.port.cluster or route.topic.crosses(partition) or order.under_way(key, batch, now):
        return None
    if route.topic.withheld(partition):
        return None
    openers: dict[Key, tuple[int, int]] = {}
    if extent.term > 0:
        if _held(batch, route.sequences, partition):
            return None
        if _watched(batch, key, extent.term, route.sequences, terms, now):
            if not _opens(batch, route.sequences, partition):
                return None
            openers[key] = (extent.term, batch.producer_id)
        _rename(frame, batch, extent.term)
    return ProduceVerdict({}, {key: extent.shift} if extent.shift else {}, None, openers)


def _under_way(order: ProducerOrder, key: Key, frame: Any, at: int, length: int, now: float) -> bool:
    return length > 0 and any(order.under_way(key, batch, now) for batch in batches(frame, at, at + length))


def note_refused(
    frame: Any, scan: ProduceScan, refused: Mapping[Key, ErrorCode], order: ProducerOrder, now: float
) -> None:
    """What is refused has to come first again. `frame` holds the whole request."""
    for topic, partition, at, length in scan.partitions:
        if length > 0 and refused.get((topic, partition)) is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            order.refused((topic, partition), batches(frame, at, at + length), now)


def _last(batch: Batch, sequences: LastSequences | None, partition: int) -> tuple[int, int] | None:
    return None if sequences is None else sequences.partitions.get(partition, {}).get(batch.producer_id)


def _watched(batch: Batch, key: Key, term: int, sequences: LastSequences | None, terms: Terms, now: float) -> bool:
    if sequences is None or sequences.terms.get(key[1]) != term:
        return False  # the origin could not be asked what it had, so nobody knows what has to come first
    ours = batch.magic == 2 and is_gateway_id(batch.producer_id)
    return ours and terms.watched(key, term, batch.producer_id, now)


def _opens(batch: Batch, sequences: LastSequences | None, partition: int) -> bool:
    return opens(batch, _last(batch, sequences, partition))


def _held(batch: Batch, sequences: LastSequences | None, partition: int) -> bool:
    """Whether an earlier term holds the batch: no cut runs through one."""
    if batch.magic != 2 or not is_gateway_id(batch.producer_id):
        return False
    entry = _last(batch, sequences, partition)
    if entry is None or entry[0] != batch.producer_epoch:
        return False
    count = max(batch.records_count, batch.last_offset_delta + 1)
    return at_or_before(last_sequence(batch.base_sequence, count), entry[1])


def _not_known(
    key: Key, found: Iterable[Batch], sequences: LastSequences | None, recalled: Recalled, now: float
) -> list[Held]:
    """Batches that wait behind others, and that an earlier term holds: they are looked up while they wait."""
    held = [of_batch(*key, batch) for batch in found if _held(batch, sequences, key[1])]
    return [one for one in held if recalled.offset(one, now) is Known.NOT_YET]


def _as_held(found: int | Known) -> tuple[ErrorCode, int]:
    """(error, base offset) of a batch that an earlier term holds, as the broker of that term would answer."""
    if found is Known.NOT_YET:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
    if found is Known.NEVER:
        return ErrorCode.DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_OFFSET
    return ErrorCode.NONE, found


def _rename(frame: Any, batch: Batch, term: int) -> None:
    if batch.magic == 2 and is_gateway_id(batch.producer_id):
        rewrite_producer_id(frame, batch.at, upstream_id(batch.producer_id, term))


def acknowledged(answer: dict[str, Any] | None) -> set[Key]:
    """Partitions of a decoded answer whose batch is in the log."""
    taken = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    return {
        (topic["name"].encode(), entry["index"])
        for topic in (answer["responses"] if answer else ())
        for entry in topic["partition_responses"]
        if entry["error_code"] in taken
    }


def without(request: dict[str, Any], refused: Mapping[Key, ErrorCode]) -> dict[str, Any]:
    """The decoded request less the refused partitions."""
    kept = []
    for topic in request["topic_data"]:
        name = topic["name"].encode()
        partitions = [p for p in topic["partition_data"] if (name, p["index"]) not in refused]
        if partitions:
            kept.append({**topic, "partition_data": partitions})
    return {**request, "topic_data": kept}


def merge(request_order: list[Key], answer: dict[str, Any] | None, verdict: ProduceVerdict) -> dict[str, Any]:
    """One answer of what the broker said, in client offsets, and of what was refused here."""
    said: dict[Key, dict[str, Any]] = {}
    for topic in answer["responses"] if answer else ():
        name = topic["name"].encode()
        for entry in topic["partition_responses"]:
            shift = verdict.shifts.get((name, entry["index"]))
            if shift is not None:
                entry["log_start_offset"] = -1
                if entry["base_offset"] >= 0:
                    entry["base_offset"] += shift
            said[name, entry["index"]] = entry
    topics: dict[bytes, list[dict[str, Any]]] = {}
    for key in request_order:
        entry = said.get(key) or {
            "index": key[1],
            "error_code": int(verdict.refused.get(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)),
            "base_offset": verdict.offsets.get(key, -1),
        }
        topics.setdefault(key[0], []).append(entry)
    return {
        "throttle_time_ms": answer["throttle_time_ms"] if answer else 0,
        "responses": [{"name": name.decode(), "partition_responses": entries} for name, entries in topics.items()],
    }
