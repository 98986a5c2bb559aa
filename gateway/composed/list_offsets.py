"""LIST_OFFSETS: translated over all extents for topics that were moved, passed to the leaders for all others."""

from __future__ import annotations

from gateway.composed import places
from gateway.composed.ask import Context, Handler, Message, handles
from gateway.composed.by_partition import split, to_leaders
from gateway.composed.client_offsets import client_offset
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
