"""Members of a group that was carried to another cluster, under the names that its coordinator there has given them.

Where a client's request says a member of the origin, the coordinator is told the member of the target, until the next
rebalance gives all of them new generations.
"""

from __future__ import annotations

from gateway.session.request import Message
from ha_core.model import Group
from ha_core.wire import ApiKey


class MemberAliases:
    """The aliases of one group, if they lead to the cluster that coordinates it."""

    def __init__(self, group: Group) -> None:
        self._aliases = group.aliases
        # JOIN_GROUP and LEAVE_GROUP name no generation.
        self._by_id = {said.split(":", 1)[1]: member for said, member in group.aliases.items()}

    def rename(self, api_key: int, request: Message) -> bool:
        """Replaces members of the origin by those of the target, in place. False: the request names none."""
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
