"""Requests of consumer groups that were carried to another cluster with their members."""

from __future__ import annotations

from typing import Any

from ha_core.model import Group, Member
from ha_core.wire import ApiKey


def members_by_id(group: Group) -> dict[str, Member]:
    """Aliases by member id alone: JOIN_GROUP and LEAVE_GROUP name no generation."""
    return {key.split(":", 1)[1]: member for key, member in group.aliases.items()}


def rename(group: Group, by_id: dict[str, Member], api_key: int, request: dict[str, Any]) -> bool:
    """Replaces members of the origin by those of the target, in place. False if the request names none."""
    if api_key == ApiKey.JOIN_GROUP:
        member = by_id.get(request["member_id"])
        if member is not None:
            request["member_id"] = member.member_id
        return member is not None
    if api_key == ApiKey.LEAVE_GROUP:
        found = False
        for entry in (request, *request.get("members", ())):
            member = by_id.get(entry.get("member_id", ""))
            if member is not None:
                entry["member_id"] = member.member_id
                found = True
        return found
    generation = "generation_id_or_member_epoch" if api_key == ApiKey.OFFSET_COMMIT else "generation_id"
    if generation not in request:
        return False
    member = group.alias(request["member_id"], request[generation])
    if member is None:
        return False
    request["member_id"] = member.member_id
    request[generation] = member.generation
    return True
