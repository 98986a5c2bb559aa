"""Offsets of a partition as its clients count them, over all of its extents: one inquiry for each kind of question.

An extent whose cluster does not answer makes the answer LEADER_NOT_AVAILABLE where it could change the outcome; an
offset that is guessed would make a consumer skip or repeat records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.composed.logs import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_UNCOMMITTED,
    Found,
    Inquiry,
    Query,
)
from gateway.composed.places import Replica
from ha_core.model import Extent
from ha_core.wire.codes import ErrorCode

NOTHING = Found(0)
_DAMAGED = Found(ErrorCode.LEADER_NOT_AVAILABLE)


def client_offset(
    topic: str, partition: int, extents: Sequence[Extent], timestamp: int, isolation: int, ahead: bool = False
) -> Inquiry[Found]:
    """What LIST_OFFSETS is to answer for `timestamp`: a time in ms, or one of the negative words.

    :param ahead: the last cut lies ahead, so the extent before it may still grow.
    """
    if not extents:
        return _damaged()
    replicas = [(extent, Replica(extent.cluster, topic, partition)) for extent in extents if not extent.ignored]
    if timestamp == LATEST:
        return _latest_ahead(replicas, isolation) if ahead and len(replicas) > 1 else _latest(*replicas[-1], isolation)
    if timestamp == EARLIEST:
        return _earliest(replicas, ahead)
    if timestamp == MAX_TIMESTAMP:
        return _largest_timestamp(replicas)
    if timestamp < 0:
        return _unknown_word()
    return _at_time(replicas, timestamp, isolation)


def end_offset(topic: str, partition: int, extents: Sequence[Extent], ahead: bool = False) -> Inquiry[Found]:
    """The client offset after the last record that consumers can see."""
    return client_offset(topic, partition, extents, LATEST, READ_UNCOMMITTED, ahead)


_Replicas = Sequence[tuple[Extent, Replica]]


def _damaged() -> Inquiry[Found]:
    return _DAMAGED
    yield ()


def _unknown_word() -> Inquiry[Found]:
    return Found(ErrorCode.INVALID_REQUEST)
    yield ()


def _latest(extent: Extent, replica: Replica, isolation: int) -> Inquiry[Found]:
    query = Query(replica, LATEST, isolation)
    found = (yield (query,))[query]
    if found.error:
        return _failed(found)
    # Before the first record of this stay the log ends at its base, or below where a transaction was left open.
    return Found(0, -1, extent.clip(found.offset))


def _latest_ahead(replicas: _Replicas, isolation: int) -> Inquiry[Found]:
    """In the origin until its log has reached the cut, in the target from then on."""
    (origin, here), (target, there) = replicas[-2:]
    queries = [Query(replica, LATEST, isolation) for replica in (here, there)]
    found = yield tuple(queries)
    first, second = (found[query] for query in queries)
    if first.error:
        return _failed(first)
    end = origin.physical_end
    if end is not None and first.offset < end:
        return Found(0, -1, origin.clip(first.offset))
    if second.error:
        return _failed(second)
    return Found(0, -1, target.clip(second.offset))


def _earliest(replicas: _Replicas, ahead: bool) -> Inquiry[Found]:
    closed, (extent, replica) = replicas[:-1], replicas[-1]
    starts = {r: Query(r, EARLIEST) for _, r in replicas}
    ends = {r: Query(r, LATEST) for _, r in closed}
    found = yield tuple(dict.fromkeys((*starts.values(), *ends.values())))
    for older, place in closed:
        start, log_end, end = found[starts[place]], found[ends[place]], older.physical_end
        if start.error or log_end.error:
            return _failed(start if start.error else log_end)
        first = max(start.offset, older.base)
        grows = ahead and older is replicas[-2][0]
        if end is not None and (first < min(end, log_end.offset) or (grows and first < end)):
            return Found(0, -1, older.to_client(first))
    start = found[starts[replica]]
    if start.error:
        return _failed(start)
    return Found(0, -1, extent.clip(start.offset))


def _at_time(replicas: _Replicas, timestamp: int, isolation: int) -> Inquiry[Found]:
    queries = {r: Query(r, timestamp, isolation) for _, r in replicas}
    found = yield tuple(dict.fromkeys(queries.values()))
    for extent, replica in replicas:
        answer = found[queries[replica]]
        if answer.error:
            return _failed(answer)
        end = extent.physical_end
        if answer.offset < 0 or (end is not None and answer.offset >= end):
            continue
        # Where the first match lies in an older part of this log that is not served, the first one inside the extent is
        # unknown: its start is early enough, and re-reading is better than skipping.
        return Found(0, answer.timestamp, extent.clip(answer.offset))
    return NOTHING


def _largest_timestamp(replicas: _Replicas) -> Inquiry[Found]:
    queries = {r: Query(r, MAX_TIMESTAMP) for _, r in replicas}
    found: Mapping[Query, Found] = yield tuple(dict.fromkeys(queries.values()))
    best = NOTHING
    for extent, replica in replicas:
        answer = found[queries[replica]]
        if answer.error:
            return _failed(answer)
        if extent.holds(answer.offset) and answer.timestamp >= best.timestamp:
            best = Found(0, answer.timestamp, extent.to_client(answer.offset))
    return best


def _failed(found: Found) -> Found:
    # An old cluster that lacks the topic does not make the topic unknown.
    unknown = found.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return Found(ErrorCode.LEADER_NOT_AVAILABLE if unknown else found.error)
