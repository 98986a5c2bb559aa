"""Classic consumer groups, as their coordinators report them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from ha_core.kafka.brokers import Again, Answers, Asking, Brokers
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import GroupNotStableError
from ha_core.kafka.facts import GroupDescription, MemberDescription
from ha_core.wire.codes import ApiKey, ErrorCode, name_of

T = TypeVar("T")

_SEVERAL_FROM = 4
"""First FIND_COORDINATOR version that takes several keys."""
_MAX_PER_REQUEST = 500
_HEARTBEATS_AT_ONCE = 50
_RESERVE_S = 0.5
_CONSUMERS = ("consumer", "")
"""Protocol types; empty: a group that has only committed offsets."""
_SHARES = ("share",)


class Groups(Brokers):
    def list_groups(self, timeout_s: float | None = None) -> dict[str, str]:
        """Every consumer group → its state, empty if the brokers do not report it (before Kafka 2.6).

        Each broker lists the groups that it coordinates, so all brokers have to answer.
        """
        return self._listed(_CONSUMERS, timeout_s)

    def share_groups(self, timeout_s: float | None = None) -> dict[str, str]:
        """Share groups (KIP-932) like `list_groups`. They have no committed offsets that another cluster could be
        given."""
        return self._listed(_SHARES, timeout_s)

    def _listed(self, kinds: Collection[str], timeout_s: float | None) -> dict[str, str]:
        asking = self.asking(timeout_s)
        asking.metadata()

        def ask(node: int, _: object) -> Answers[int, dict[str, str]]:
            answer = asking.call(node, ApiKey.LIST_GROUPS, {})
            states = {
                group["group_id"]: group.get("group_state", "")
                for group in answer["groups"]
                if group["protocol_type"] in kinds
            }
            yield node, asking.again("list the groups", answer["error_code"]) or states

        listed = asking.rounds("list the groups", sorted(asking.nodes), lambda left: zip(left, left, strict=True), ask)
        return {group: state for states in listed.values() for group, state in states.items()}

    def describe_groups(self, names: Collection[str], timeout_s: float | None = None) -> dict[str, GroupDescription]:
        """State and members. A missing group is `Dead`; so is a group of the newer protocol (KIP-848)."""
        return describe(self.asking(timeout_s), names)

    def group_generation(self, group: GroupDescription, timeout_s: float | None = None) -> int:
        """The generation of a stable group of this cluster."""
        return generation(self.asking(timeout_s), group)


def at_coordinators(
    asking: Asking,
    what: str,
    groups: Collection[str],
    ask: Callable[[int, list[str]], Iterable[tuple[str, T | Again]]],
) -> dict[str, T]:
    """Asks the groups' coordinators, see `Asking.rounds`."""
    return asking.rounds(what, groups, partial(_coordinators, asking), ask)


def at_coordinator(asking: Asking, what: str, group: str, ask: Callable[[int], T | Again]) -> T:
    """Asks the coordinator of one group."""
    return at_coordinators(asking, what, [group], lambda node, _: [(group, ask(node))])[group]


def _coordinators(asking: Asking, groups: set[str]) -> Answers[str, int]:
    if not asking.nodes:
        asking.metadata()

    def message(some: Sequence[str]) -> dict[str, Any]:
        return {"key": some[0], "coordinator_keys": some}

    answers = asking.calls(None, ApiKey.FIND_COORDINATOR, sorted(groups), _MAX_PER_REQUEST, message, _SEVERAL_FROM)
    for (first, *_), answer in answers:
        for coordinator in answer["coordinators"] or [answer | {"key": first}]:
            group, code = coordinator["key"], coordinator["error_code"]
            if not code and coordinator["node_id"] in asking.nodes:
                yield group, coordinator["node_id"]
            else:
                again = asking.again(f"find the coordinator of group {group}", code, coordinator["error_message"])
                yield group, Again(f"it has no coordinator, {again.why if again else name_of(code)}")
                asking.metadata()


def describe(asking: Asking, groups: Collection[str]) -> dict[str, GroupDescription]:
    """State and members of `groups`, batched by coordinator."""

    def ask(node: int, names: list[str]) -> Answers[str, GroupDescription]:
        for _, answer in asking.calls(
            node, ApiKey.DESCRIBE_GROUPS, names, _MAX_PER_REQUEST, lambda some: {"groups": some}
        ):
            for group in answer["groups"]:
                name = group["group_id"]
                yield name, asking.again(f"describe group {name}", group["error_code"]) or _description(group, node)

    return at_coordinators(asking, "describe the groups", groups, ask)


def _description(group: dict[str, Any], node: int) -> GroupDescription:
    return GroupDescription(
        name=group["group_id"],
        state=group["group_state"],
        protocol_type=group["protocol_type"],
        protocol=group["protocol_data"],
        members=tuple(
            MemberDescription(
                member_id=member["member_id"],
                instance_id=member["group_instance_id"],
                client_id=member["client_id"],
                host=member["client_host"],
                metadata=member["member_metadata"],
                assignment=member["member_assignment"],
            )
            for member in group["members"]
        ),
        coordinator=node,
    )


def generation(asking: Asking, group: GroupDescription) -> int:
    """The generation of a stable group with members.

    No request returns it. A heartbeat with a wrong generation is refused and changes nothing; one with the right
    generation only confirms that the member is alive. So generations are tried upwards from 1, in batches: on a small
    machine 10,000 take about 4 s.

    :raises GroupNotStableError: no member, a rebalance, or more generations than could be tried in time.
    """

    def unknown(why: str) -> GroupNotStableError:
        return GroupNotStableError(asking.cluster, f"group {group.name} {why}")

    if group.state != "Stable" or not group.members:
        raise unknown(
            f"is {group.state} with {len(group.members)} members: its generation cannot be found. Try again when it is "
            "stable."
        )
    member = group.members[0].member_id

    def talk(connection: BlockingConnection) -> int:
        first = 1
        while True:
            if asking.deadline.left_s < _RESERVE_S:
                raise unknown(
                    f"has had more than {first - 1} generations; {asking.deadline.seconds:g} s were not enough to find "
                    "the present one. Allow more time."
                )
            tried = range(first, first + _HEARTBEATS_AT_ONCE)
            for number in tried:
                body = {"group_id": group.name, "generation_id": number, "member_id": member}
                connection.send(ApiKey.HEARTBEAT, body)
            codes = [connection.receive()["error_code"] for _ in tried]
            for number, code in zip(tried, codes, strict=True):
                if not code:
                    return number
                if code != ErrorCode.ILLEGAL_GENERATION:
                    raise unknown(
                        f"changed while its generation was looked for: {name_of(code)}. Try again when it is stable."
                    )
            first += _HEARTBEATS_AT_ONCE

    return asking.converse(group.coordinator, talk)
