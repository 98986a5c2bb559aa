"""LIST_OFFSETS: translated over all extents for topics that were moved, passed to the leaders for all others."""

from __future__ import annotations

from gateway.composed import places
from gateway.composed.ask import Context, Handler, Message, handles
from gateway.composed.by_partition import Partition, Shape, split, to_leaders
from gateway.composed.client_offsets import client_offset
from gateway.composed.logs import CONSUMER, rounds
from ha_core.wire.codes import ApiKey

_SHAPE = Shape(ApiKey.LIST_OFFSETS)


@handles(ApiKey.LIST_OFFSETS)
def list_offsets(context: Context, version: int, request: Message) -> Handler:
    isolation = request["isolation_level"]
    wanted: dict[Partition, Message] = {
        (topic["name"], partition["partition_index"]): partition
        for topic in request["topics"]
        for partition in topic["partitions"]
    }
    mapped, others = split(context, wanted)

    def some(batch: list[Partition]) -> Message:
        return {
            "replica_id": CONSUMER,
            "isolation_level": isolation,
            "topics": _SHAPE.topics(batch, wanted),
        }

    outcomes = yield from to_leaders(context, _SHAPE, others, some)
    found = yield from rounds(
        context,
        {
            key: client_offset(
                *key,
                places.extents(context, *key),
                wanted[key]["timestamp"],
                isolation,
                places.ahead(context, *key),
            )
            for key in mapped
        },
    )
    for key, (error, timestamp, offset) in found.items():
        # No leader epoch: those of two clusters cannot be compared.
        answer = {"partition_index": key[1], "error_code": int(error), "leader_epoch": -1}
        outcomes[key] = answer | {"timestamp": timestamp, "offset": offset}
    return {"topics": _SHAPE.topics(wanted, outcomes)}
