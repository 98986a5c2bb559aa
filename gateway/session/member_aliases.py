"""Members of an adopted group, under the member ids that the target's coordinator has given them.

Where a client's request names a member of the origin, the gateway puts the target's member in, until the next rebalance
gives all members new generations.
"""

from __future__ import annotations

from gateway.session.request import Message
from ha_core.model import Group
from ha_core.wire import ApiKey


class MemberAliases:
    """Aliases of one group, if they belong to the cluster that coordinates it."""

    def __init__(self, group: Group) -> None:
        self._aliases = group.aliases
        # JOIN_GROUP and LEAVE_GROUP carry no generation.
        self._by_id = {name.split(":", 1)[1]: member for name, member in group.aliases.items()}

    def rename(self, api_key: int, request: Message) -> bool:
        """Replaces the origin's members by the target's, in place. False: the request names none."""
        if api_key in (ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP):
            named = False
            for entry in (request, *request.get("members", ())):
                member = self._by_id.get(entry.get("member_id", ""))
                if member is not None:
                    entry["member_id"] = member.member_id
                    named = True
            return named
        generation = "generation_id_or_member_epoch" if api_key == ApiKey.OFFSET_COMMIT else "generation_id"
        member = self._aliases.get(f"{request[generation]}:{request['member_id']}") if generation in request else None
        if member is None:
            return False
        request["member_id"], request[generation] = member.member_id, member.generation
        return True
