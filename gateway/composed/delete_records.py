"""DELETE_RECORDS: for moved topics extent by extent, up to the client offset.

A mirror's copy keeps records that its source has deleted. So for a topic with a copy, the gateway stores the offsets
below which all records are deleted, before it acknowledges the deletion. A switch to the copy uses these offsets
(`ha_core/plan/mirror/standby`), also when the source is dead and its log start offset unknown.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gateway.composed import lookups
from gateway.composed.ask import Asking, Message, grouped
from gateway.composed.by_partition import (
    LogSearch,
    NamedPartition,
    Outcomes,
    Query,
    RequestShape,
    ask_leaders,
    failed,
    rounds,
    split,
    to_leaders,
)
from gateway.composed.handlers import Context, DeletedBelow, Handler, KeepDeleted, handles
from gateway.composed.lookups import ClusterPartition
from ha_core.model import Extent
from ha_core.model.extent import Hole, locate
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.own_requests import LATEST

_ALL = -1
_NO_WATERMARK = {"low_watermark": -1}


class _Plan(NamedTuple):
    """`upto`: per replica the offset in its own log; `low`: the client offset at which the log then starts."""

    upto: dict[ClusterPartition, int]
    last: tuple[Extent, ClusterPartition] | None
    low: int
    error: int = 0


@handles(ApiKey.DELETE_RECORDS)
def delete_records(context: Context, version: int, request: Message) -> Handler:
    shape = RequestShape(ApiKey.DELETE_RECORDS, timeout_ms=lookups.wait_ms(request))
    # If a partition is named several times, the last mention applies, as on brokers.
    wanted = {NamedPartition(*key[:2]): entry for key, entry in shape.wanted(request).items()}
    timeout = {"timeout_ms": request["timeout_ms"]}
    mapped, others = split(context, wanted)
    outcomes = yield from to_leaders(context, shape, others, wanted, timeout)
    plans = yield from rounds(context, {key: _plan(context, key[:2], wanted[key]["offset"]) for key in mapped})
    outcomes.update((yield from _delete(context, shape, plans, timeout)))
    if deleted := _to_keep(context, {key: outcomes[key] for key in plans}):
        # A client that retries deletes nothing more, and the retry stores the deletion.
        for deletion, kept in zip(deleted, (yield KeepDeleted(deleted)), strict=True):
            if kept["error_code"]:
                away = {
                    NamedPartition(deletion.topic.name, p): shape.result(p, ErrorCode.LEADER_NOT_AVAILABLE)
                    for p in deletion.below
                }
                outcomes.update(away)
    left = {topic for topic in {key[0] for key in outcomes} if lookups.may_have_left(context, topic)}
    again = ErrorCode.LEADER_NOT_AVAILABLE
    outcomes.update((key, shape.result(key[1], again)) for key in [*outcomes] if key[0] in left)
    # The codec's default for a missing watermark is 0, which would be a claim.
    return {"topics": shape.topics(wanted, {key: _NO_WATERMARK | answer for key, answer in outcomes.items()})}


def _to_keep(context: Context, outcomes: Mapping[NamedPartition, Message]) -> tuple[DeletedBelow, ...]:
    """Deletions in partitions that have a copy, or that were switched to one: after a forced switch, the old cluster
    still has the records that clients delete in the copy."""
    done = {key: answer["low_watermark"] for key, answer in outcomes.items() if not answer["error_code"]}
    copied = grouped((key.topic, (key.partition, low)) for key, low in done.items() if _has_copy(context, key))
    return tuple(DeletedBelow(lookups.document(context, name), dict(below)) for name, below in copied.items())


def _has_copy(context: Context, key: NamedPartition) -> bool:
    view = context.view
    mirrored = any(f"{key.topic}@{cluster}" in view.mirrors for cluster in view.clusters)
    return mirrored or any(extent.copied for extent in lookups.extents(context, *key[:2]))


def _refused(error: int) -> _Plan:
    return _Plan({}, None, -1, error)


def _plan(context: Context, key: Partition, offset: int) -> LogSearch[_Plan]:
    extents = lookups.extents(context, *key)
    document = lookups.document(context, key[0])
    # While a cut lies ahead, it is not decided which cluster has to delete which records: the client has to retry.
    # Under a fence a copy may become the log, and it has the records that would be deleted in the origin.
    if not extents or document.crosses(key[1]) or document.fence is not None:
        return _refused(ErrorCode.LEADER_NOT_AVAILABLE)
    if offset < _ALL:
        return _refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    readable = [(e, ClusterPartition(e.cluster, *key)) for e in extents if not e.ignored]
    touched = [pair for pair in readable if offset == _ALL or pair[0].start <= offset]
    found = (yield tuple(Query(replica, LATEST) for _, replica in touched)) if touched else {}
    upto: dict[ClusterPartition, int] = {}
    for extent, replica in touched:
        answer = found[Query(replica, LATEST)]
        if answer.error:
            return _refused(failed(context, key, answer.error))
        end = extent.physical_end
        stop = answer.offset if end is None else min(end, answer.offset)
        if offset != _ALL and (end is None or offset < (extent.end or 0)):
            stop = extent.to_physical(offset)
            if stop > answer.offset:
                return _refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        # Two stays in one cluster are one log: the newer one's offset covers the older one's.
        upto[replica] = max(upto.get(replica, 0), stop)
    if offset == _ALL:
        return _Plan(upto, readable[-1], -1)
    location = locate(extents, offset)
    if isinstance(location, Hole):
        return _Plan(upto, None, location.extent.start)
    return _Plan(upto, (location.extent, ClusterPartition(location.extent.cluster, *key)), offset)


def _delete(
    context: Context, shape: RequestShape, plans: dict[NamedPartition, _Plan], timeout: Message
) -> Asking[Outcomes]:
    upto = {replica: offset for plan in plans.values() for replica, offset in plan.upto.items()}

    def message(batch: list[ClusterPartition]) -> Message:
        partitions = {NamedPartition(*r[1:]): {"partition_index": r.partition, "offset": upto[r]} for r in batch}
        return {"topics": shape.topics(partitions, partitions), **timeout}

    answers, _ = yield from ask_leaders(context, shape, {replica: replica for replica in upto}, message)
    return {key: _outcome(shape, key, plan, answers) for key, plan in plans.items()}


def _outcome(
    shape: RequestShape, key: NamedPartition, plan: _Plan, answers: dict[ClusterPartition, Message]
) -> Message:
    if plan.error:
        return shape.result(key[1], plan.error)
    for replica in plan.upto:
        answer = answers.get(replica)
        if error := ErrorCode.LEADER_NOT_AVAILABLE if answer is None else answer["error_code"]:
            return shape.result(key[1], error)
    low = plan.low
    if plan.last is not None:
        extent, replica = plan.last
        if replica in answers:
            low = extent.clip(answers[replica]["low_watermark"])
    return shape.result(key[1], 0, low_watermark=low)
