"""LIST_OFFSETS and OFFSET_FOR_LEADER_EPOCH: over all extents of moved topics, of all others by their leaders."""

from __future__ import annotations

from gateway.composed import places
from gateway.composed.ask import Context, Handler, Message, handles
from gateway.composed.by_partition import Shape, split, to_leaders
from gateway.composed.client_offsets import client_offset, end_offset
from gateway.composed.logs import CONSUMER, SHAPE, rounds
from ha_core.wire.codes import ApiKey


@handles(ApiKey.LIST_OFFSETS)
def list_offsets(context: Context, version: int, request: Message) -> Handler:
    isolation, wanted = request["isolation_level"], SHAPE.wanted(request)
    mapped, others = split(context, wanted)
    more = {"replica_id": CONSUMER, "isolation_level": isolation}
    outcomes = yield from to_leaders(context, SHAPE, others, wanted, more)
    inquiries = {
        key: client_offset(
            *key, places.extents(context, *key), wanted[key]["timestamp"], isolation, places.ahead(context, *key)
        )
        for key in mapped
    }
    for key, (error, timestamp, offset) in (yield from rounds(context, inquiries)).items():
        # No leader epoch: those of two clusters cannot be compared.
        outcomes[key] = SHAPE.said(key[1], error, leader_epoch=-1, timestamp=timestamp, offset=offset)
    return {"topics": SHAPE.topics(wanted, outcomes)}


_EPOCHS = Shape(ApiKey.OFFSET_FOR_LEADER_EPOCH, topic="topic", partition="partition")


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(context: Context, version: int, request: Message) -> Handler:
    """For moved topics the requested epoch is answered with the client end.

    Client offsets are never truncated, so every position up to the end is sound whatever epoch it was read in. An
    undefined epoch or end (-1) would say so less well: Java takes it as truncation and resets the consumer.
    """
    wanted = _EPOCHS.wanted(request)
    mapped, others = split(context, wanted)
    outcomes = yield from to_leaders(context, _EPOCHS, others, wanted, {"replica_id": CONSUMER})
    ends = {key: end_offset(*key, places.extents(context, *key), places.ahead(context, *key)) for key in mapped}
    for key, (error, _, end) in (yield from rounds(context, ends)).items():
        epoch = -1 if error else wanted[key]["leader_epoch"]
        outcomes[key] = _EPOCHS.said(key[1], error, leader_epoch=epoch, end_offset=end)
    return {"topics": _EPOCHS.topics(wanted, outcomes)}
