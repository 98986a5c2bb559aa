"""Classic consumer groups, as their coordinators know them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ha_core.kafka.brokers import Brokers, pages
from ha_core.kafka.connection import Connection
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import GroupNotStableError, KafkaAdminError, why_again
from ha_core.kafka.facts import GroupDescription, MemberDescription
from ha_core.wire.codes import ApiKey, ErrorCode, name_of

_GROUP_KEY = 0
_BATCHES_FROM = 4
"""First FIND_COORDINATOR version that takes several keys."""
_MAX_PER_REQUEST = 500
_HEARTBEATS_AT_ONCE = 50
_RESERVE_S = 0.5
_CONSUMERS = ("consumer", "")
"""Protocol types; empty: a group that only ever committed offsets."""


class Coordinators:
    """Finds groups' coordinators; one object serves one question."""

    def __init__(self, brokers: Brokers, deadline: Deadline) -> None:
        self._brokers = brokers
        self._deadline = deadline

    def locate(self, groups: set[str]) -> tuple[dict[str, int], dict[str, str]]:
        """Coordinators' node ids, and why some have none."""
        if not self._brokers.nodes:
            self._brokers.metadata((), self._deadline)
        found: dict[str, int] = {}
        waiting: dict[str, str] = {}
        for one in self._brokers.converse(
            None, lambda connection: self._ask(connection, sorted(groups)), self._deadline
        ):
            group, code = one["key"], one["error_code"]
            if not code and one["node_id"] in self._brokers.nodes:
                found[group] = one["node_id"]
            else:
                what = f"find the coordinator of group {group}"
                why = why_again(self._brokers.cluster, what, code, one["error_message"]) if code else name_of(code)
                waiting[group] = f"it has no coordinator, {why}"
                self._brokers.metadata((), self._deadline)
        return found, waiting

    def _ask(self, connection: Connection, groups: list[str]) -> list[dict[str, Any]]:
        api, out = ApiKey.FIND_COORDINATOR, []
        if connection.version(api) >= _BATCHES_FROM:
            for some in pages(groups, _MAX_PER_REQUEST):
                ask = {"key_type": _GROUP_KEY, "coordinator_keys": some}
                out += connection.call(api, ask, self._deadline)["coordinators"]
            return out
        for group in groups:
            out.append(connection.call(api, {"key": group, "key_type": _GROUP_KEY}, self._deadline) | {"key": group})
        return out


def describe(brokers: Brokers, groups: Collection[str], deadline: Deadline) -> dict[str, GroupDescription]:
    """State and members of `groups`, batched by coordinator. Groups of the newer protocol (KIP-848) look `Dead`."""

    def ask(node: int, asked: list[str]) -> tuple[dict[str, GroupDescription], dict[str, str]]:
        out: dict[str, GroupDescription] = {}
        again: dict[str, str] = {}
        for some in pages(asked, _MAX_PER_REQUEST):
            for one in brokers.call(node, ApiKey.DESCRIBE_GROUPS, {"groups": some}, deadline)["groups"]:
                code = one["error_code"]
                if not code:
                    out[one["group_id"]] = _description(one, node)
                else:
                    again[one["group_id"]] = why_again(brokers.cluster, f"describe group {one['group_id']}", code)
        return out, again

    return brokers.rounds("describe the groups", groups, Coordinators(brokers, deadline).locate, ask, deadline)


def names(brokers: Brokers, deadline: Deadline) -> dict[str, str]:
    """Every consumer group of the cluster → its state, empty where the brokers do not say it (before Kafka 2.6).

    Each broker lists the groups that it coordinates, so all of them have to answer.
    """
    brokers.metadata((), deadline)

    def ask(node: int, asked: list[int]) -> tuple[dict[int, dict[str, str]], dict[int, str]]:
        answer = brokers.call(node, ApiKey.LIST_GROUPS, {"states_filter": []}, deadline)
        code = answer["error_code"]
        if not code:
            consumers = [one for one in answer["groups"] if one["protocol_type"] in _CONSUMERS]
            return {key: {one["group_id"]: one.get("group_state", "") for one in consumers} for key in asked}, {}
        return {}, dict.fromkeys(asked, why_again(brokers.cluster, "list the groups", code))

    nodes = sorted(brokers.nodes)
    found = brokers.rounds("list the groups", nodes, lambda left: ({n: n for n in left}, {}), ask, deadline)
    return {group: state for listed in found.values() for group, state in listed.items()}


def _description(one: dict[str, Any], node: int) -> GroupDescription:
    return GroupDescription(
        name=one["group_id"],
        state=one["group_state"],
        protocol_type=one["protocol_type"],
        protocol=one["protocol_data"],
        members=tuple(
            MemberDescription(
                member_id=member["member_id"],
                instance_id=member["group_instance_id"],
                client_id=member["client_id"],
                host=member["client_host"],
                metadata=member["member_metadata"],
                assignment=member["member_assignment"],
            )
            for member in one["members"]
        ),
        coordinator=node,
    )


def generation(brokers: Brokers, group: GroupDescription, deadline: Deadline) -> int:
    """The generation of a stable group with members.

    No request tells it, but a heartbeat with the wrong one is refused and changes nothing, and one with the right one
    only says that the member is alive. So they are tried upwards from 1, in batches: on a small machine 10,000
    take about 4 s.

    :raises GroupNotStableError: no member, a rebalance, or more generations than could be tried in time.
    """
    if group.state != "Stable" or not group.members:
        raise GroupNotStableError(
            brokers.cluster,
            f"group {group.name} is {group.state} with {len(group.members)} members: its generation cannot be found. "
            "Try again when it is stable.",
        )
    member = group.members[0].member_id

    def talk(connection: Connection) -> int:
        first = 1
        while True:
            if deadline.left_s < _RESERVE_S:
                raise _too_many(brokers, group, first - 1, deadline)
            tried = range(first, first + _HEARTBEATS_AT_ONCE)
            for number in tried:
                body = {"group_id": group.name, "generation_id": number, "member_id": member}
                connection.send(ApiKey.HEARTBEAT, body, deadline)
            codes = [connection.receive(deadline)["error_code"] for _ in tried]
            for number, code in zip(tried, codes, strict=True):
                if not code:
                    return number
                if code != ErrorCode.ILLEGAL_GENERATION:
                    raise _moved_on(brokers, group, code)
            first += _HEARTBEATS_AT_ONCE

    return brokers.converse(group.coordinator, talk, deadline)


def _too_many(brokers: Brokers, group: GroupDescription, tried: int, deadline: Deadline) -> KafkaAdminError:
    return GroupNotStableError(
        brokers.cluster,
        f"group {group.name} has had more than {tried} generations; {deadline.seconds:g} s were not enough to find the "
        "present one. Allow more time.",
    )


def _moved_on(brokers: Brokers, group: GroupDescription, code: int) -> KafkaAdminError:
    return GroupNotStableError(
        brokers.cluster,
        f"group {group.name} changed while its generation was looked for: {name_of(code)}. Try again when it "
        "is stable.",
    )
