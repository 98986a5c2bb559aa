"""LIST_OFFSETS and OFFSET_FOR_LEADER_EPOCH: over all extents of moved topics; for all others by their leaders.

An extent whose cluster does not answer makes the answer LEADER_NOT_AVAILABLE if it could change the outcome: a guessed
offset would make a consumer skip or repeat records.
"""

from collections.abc import Mapping, Sequence

from gateway.composed import lookups
from gateway.composed.ask import Message
from gateway.composed.by_partition import (
    LIST_OFFSETS,
    READ_UNCOMMITTED,
    LogAnswer,
    LogSearch,
    NamedPartition,
    Query,
    RequestShape,
    failed,
    rounds,
    split,
    to_leaders,
)
from gateway.composed.handlers import Context, Handler, handles
from gateway.composed.lookups import ClusterPartition
from ha_core.model import Extent
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.own_requests import CONSUMER, EARLIEST, LATEST, MAX_TIMESTAMP

_NOTHING = LogAnswer(0)
_TELLS_MAX_TIMESTAMP = 7
"""Version of LIST_OFFSETS from which on `MAX_TIMESTAMP` may be requested (KIP-734)."""


@handles(ApiKey.LIST_OFFSETS)
def list_offsets(context: Context, version: int, request: Message) -> Handler:
    isolation, wanted = request["isolation_level"], LIST_OFFSETS.wanted(request)
    refused = {key: code for key, code in _refused(version, wanted).items() if code}
    mapped, others = split(context, (key for key in wanted if key not in refused))
    more = {"replica_id": CONSUMER, "isolation_level": isolation}
    by_leaders = yield from to_leaders(context, LIST_OFFSETS, others, wanted, more)
    outcomes = {key: outcome | lookups.NO_EPOCH for key, outcome in by_leaders.items()}
    searches = {key: _client_offset(context, key[:2], wanted[key]["timestamp"], isolation) for key in mapped}
    for key, (error, timestamp, offset) in (yield from rounds(context, searches)).items():
        outcomes[key] = LIST_OFFSETS.result(key[1], error, timestamp=timestamp, offset=offset, **lookups.NO_EPOCH)
    outcomes |= {key: LIST_OFFSETS.result(key[1], code, **lookups.NO_EPOCH) for key, code in refused.items()}
    return {"topics": LIST_OFFSETS.topics(wanted, outcomes)}


def _refused(version: int, wanted: Mapping[NamedPartition, Message]) -> dict[NamedPartition, int]:
    """Error of partitions that are refused before any look-up, as by a broker; 0: none."""
    twice = {key[:2] for key in wanted if key.nth}
    lowest = MAX_TIMESTAMP if version >= _TELLS_MAX_TIMESTAMP else EARLIEST
    return {
        key: ErrorCode.INVALID_REQUEST
        if key[:2] in twice
        else ErrorCode.UNSUPPORTED_VERSION
        if entry["timestamp"] < lowest
        else 0
        for key, entry in wanted.items()
    }


_EPOCHS = RequestShape(ApiKey.OFFSET_FOR_LEADER_EPOCH, topic="topic", partition="partition")


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(context: Context, version: int, request: Message) -> Handler:
    """For moved topics the requested epoch is answered with the client end.

    Client offsets are never truncated, so every position up to the end is valid whatever epoch it was read in. An
    undefined epoch or end (-1) would not work: Java takes it for truncation and resets the consumer.
    """
    wanted = _EPOCHS.wanted(request)
    mapped, others = split(context, wanted)
    outcomes = yield from to_leaders(context, _EPOCHS, others, wanted, {"replica_id": CONSUMER})
    ends = {key: _client_offset(context, key[:2], LATEST, READ_UNCOMMITTED, reads=False) for key in mapped}
    for key, (error, _, end) in (yield from rounds(context, ends)).items():
        epoch = -1 if error else wanted[key]["leader_epoch"]
        outcomes[key] = _EPOCHS.result(key[1], error, leader_epoch=epoch, end_offset=end)
    return {"topics": _EPOCHS.topics(wanted, outcomes)}


_Logs = Sequence[tuple[Extent, ClusterPartition]]


def _client_offset(
    context: Context, key: Partition, timestamp: int, isolation: int, reads: bool = True
) -> LogSearch[LogAnswer]:
    """LIST_OFFSETS for `timestamp`: a time in ms, or one of the negative constants.

    :param reads: True if the log ends for the client at the end of the copy that it reads.
    """
    logs = [
        (extent, ClusterPartition(extent.cluster, *key))
        for extent in lookups.extents(context, *key)
        if not extent.ignored
    ]
    # While the last cut lies ahead, the extent before it may still grow.
    ahead = lookups.document(context, key[0]).crosses(key[1])
    if not logs:
        return _known(LogAnswer(ErrorCode.LEADER_NOT_AVAILABLE))
    if timestamp == LATEST:
        if reads and (copy := lookups.read_copy(context, *key)) is not None:
            return _known(LogAnswer(0, -1, copy.end))
        found = _latest(logs[-2:] if ahead else logs[-1:], isolation)
    elif timestamp == EARLIEST:
        found = _earliest(logs, ahead)
    elif timestamp == MAX_TIMESTAMP:
        found = _largest_timestamp(logs)
    else:
        found = _at_time(logs, timestamp, isolation)
    return _of_partition(context, key, found)


def _of_partition(context: Context, key: Partition, found: LogSearch[LogAnswer]) -> LogSearch[LogAnswer]:
    answer = yield from found
    return LogAnswer(failed(context, key, answer.error)) if answer.error else answer


def _known(answer: LogAnswer) -> LogSearch[LogAnswer]:
    return answer
    yield ()


def _each(logs: _Logs, timestamp: int, isolation: int) -> LogSearch[list[tuple[Extent, LogAnswer]]]:
    found = yield tuple(Query(replica, timestamp, isolation) for _, replica in logs)
    return [(extent, found[Query(replica, timestamp, isolation)]) for extent, replica in logs]


def _latest(logs: _Logs, isolation: int) -> LogSearch[LogAnswer]:
    """The end of the last extent; of two, the origin's until its log has reached the cut, the target's from then on."""
    for extent, log_end in (yield from _each(logs, LATEST, isolation)):
        if log_end.error:
            return log_end
        # Before the first record of this stay the log ends at its base, or below if a transaction was left open.
        latest, end = LogAnswer(0, -1, extent.clip(log_end.offset)), extent.physical_end
        if end is not None and log_end.offset < end:
            break
    return latest


def _earliest(logs: _Logs, ahead: bool) -> LogSearch[LogAnswer]:
    closed, (extent, open_replica) = logs[:-1], logs[-1]
    found = yield (*(Query(r, EARLIEST) for _, r in logs), *(Query(r, LATEST) for _, r in closed))
    for older, replica in closed:
        start, log_end, end = found[Query(replica, EARLIEST)], found[Query(replica, LATEST)], older.physical_end
        if start.error or log_end.error:
            return start if start.error else log_end
        first = max(start.offset, older.base)
        grows = ahead and older is closed[-1][0]
        if end is not None and (first < min(end, log_end.offset) or (grows and first < end)):
            return LogAnswer(0, -1, older.to_client(first))
    start = found[Query(open_replica, EARLIEST)]
    return start if start.error else LogAnswer(0, -1, extent.clip(start.offset))


def _at_time(logs: _Logs, timestamp: int, isolation: int) -> LogSearch[LogAnswer]:
    for extent, answer in (yield from _each(logs, timestamp, isolation)):
        if answer.error:
            return answer
        end = extent.physical_end
        if answer.offset >= 0 and (end is None or answer.offset < end):
            # If the first match is in an older part of this log that is not served, the first one inside the extent is
            # unknown: its start is early enough, and re-reading is better than skipping.
            return LogAnswer(0, answer.timestamp, extent.clip(answer.offset))
    return _NOTHING


def _largest_timestamp(logs: _Logs) -> LogSearch[LogAnswer]:
    best = _NOTHING
    for extent, answer in (yield from _each(logs, MAX_TIMESTAMP, READ_UNCOMMITTED)):
        if answer.error:
            return answer
        if extent.holds(answer.offset) and answer.timestamp >= best.timestamp:
            best = LogAnswer(0, answer.timestamp, extent.to_client(answer.offset))
    return best
