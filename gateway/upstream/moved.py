"""Errors in answers that say: somebody else is to be asked."""

from __future__ import annotations

from typing import Any

from gateway.composed.ask import Controller, Coordinator, Message
from gateway.heavy import beside, heavy
from ha_core.wire.codes import ErrorCode

MOVED = {
    Controller: frozenset({ErrorCode.NOT_CONTROLLER}),
    Coordinator: frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}),
}
LEADER_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


async def says(answer: Message, codes: frozenset[ErrorCode]) -> bool:
    """Whether an answer, or anything listed in it down to the partitions, carries one of these errors."""
    if not codes:
        return False
    return await beside(_carries, answer, codes) if heavy(answer) else _carries(answer, codes)


def _carries(answer: Message, codes: frozenset[ErrorCode]) -> bool:
    layer: list[Any] = [answer]
    for _ in range(3):
        if any(item.get("error_code") in codes for item in layer):
            return True
        layer = [
            item
            for holder in layer
            for value in holder.values()
            if isinstance(value, list)
            for item in value
            if isinstance(item, dict)
        ]
    return False
