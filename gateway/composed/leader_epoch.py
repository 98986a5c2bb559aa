"""OFFSET_FOR_LEADER_EPOCH: where the records of an epoch end, by which consumers find that a log was truncated."""

from __future__ import annotations

from gateway.composed import places
from gateway.composed.ask import Context, Handler, Message, handles
from gateway.composed.by_partition import Shape, split, to_leaders
from gateway.composed.client_offsets import end_offset
from gateway.composed.logs import CONSUMER, rounds
from ha_core.wire.codes import ApiKey

_SHAPE = Shape(ApiKey.OFFSET_FOR_LEADER_EPOCH, topic="topic", partition="partition")


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(context: Context, version: int, request: Message) -> Handler:
    """For moved topics the requested epoch is answered with the client end.

    Client offsets are never truncated, so every position up to the end is sound whatever epoch it was read in. An
    undefined epoch or end (-1) would say so less well: Java takes it as truncation and resets the consumer.
    """
    wanted = _SHAPE.wanted(request)
    mapped, others = split(context, wanted)
    outcomes = yield from to_leaders(context, _SHAPE, others, wanted, {"replica_id": CONSUMER})
    ends = {key: end_offset(*key, places.extents(context, *key), places.ahead(context, *key)) for key in mapped}
    for key, (error, _, end) in (yield from rounds(context, ends)).items():
        epoch = -1 if error else wanted[key]["leader_epoch"]
        outcomes[key] = _SHAPE.said(key[1], error, leader_epoch=epoch, end_offset=end)
    return {"topics": _SHAPE.topics(wanted, outcomes)}
