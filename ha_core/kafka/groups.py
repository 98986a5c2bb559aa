"""Classic consumer groups, as their coordinators report them, and their committed offsets.

Offsets are committed as given, always without a leader epoch: one of another cluster means nothing, and a consumer that
starts from a committed offset with an epoch asks the new leader to validate it. -1 disables that.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ha_core.kafka.brokers import Again, Answers, Asking, Brokers, StillOurs, partitions_of, topic_entries
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import GroupNotStableError, StandsInTheWayError, refusal
from ha_core.kafka.facts import GroupDescription, MemberDescription
from ha_core.model.group import Member
from ha_core.model.portions import portions
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import RETRIABLE, ApiKey, ErrorCode, name_of

T = TypeVar("T")

_SEVERAL_FROM = 4
"""First FIND_COORDINATOR version that takes several keys."""
_MAX_PER_REQUEST = 500
_HEARTBEATS_AT_ONCE = 50
_RESERVE_S = 0.5
_CONSUMERS = ("consumer", "")
"""Protocol types; empty: a group that has only committed offsets."""
_SHARES = ("share",)
Committed = tuple[int, str]
"""(offset, metadata)."""

_SEVERAL_GROUPS_FROM = 8
"""First OFFSET_FETCH version that takes several groups."""
_MAX_GROUPS_PER_REQUEST = 100
_MAX_COMMIT_BYTES = 400_000
"""Per request: brokers append it as one batch, limited by `max.message.bytes` of the offsets topic (1 MB)."""
_OVERHEAD_BYTES = 80
_WORTH_WAITING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}
"""Excludes UNKNOWN_TOPIC_OR_PARTITION, although it is retriable: waiting does not create a topic."""
_NOT_OURS = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
_NOTHING_THERE = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
_SUBSCRIBED = {ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


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

    def describe_groups(
        self, names: Collection[str], timeout_s: float | None = None, partial: bool = False
    ) -> dict[str, GroupDescription]:
        """State and members. A missing group is `Dead`; so is a group of the newer protocol (KIP-848).

        :param partial: leave out groups whose coordinators do not answer before the deadline.
        """
        return describe(self.asking(timeout_s), names, partial)

    def group_generation(self, group: GroupDescription, timeout_s: float | None = None) -> int:
        """The generation of a stable group of this cluster."""
        return generation(self.asking(timeout_s), group)

    def group_offsets(
        self, names: Collection[str], stable: bool = True, timeout_s: float | None = None, partial: bool = False
    ) -> dict[str, dict[Partition, Committed]]:
        """All committed offsets of groups. With `stable`, waits for offsets of open transactions (KIP-447).

        :param partial: leave out groups whose coordinators do not answer before the deadline.
        """
        return _read(self.asking(timeout_s), names, stable, partial)

    def set_group_offsets(
        self,
        group: str,
        committed: Mapping[Partition, Committed],
        member: Member | None = None,
        timeout_s: float | None = None,
        still_ours: StillOurs = lambda: None,
    ) -> None:
        """Commits, then reads back. An empty group accepts offsets from anyone, a live one only from a `member`.

        :param still_ours: an empty group has no other protection against a late commit.
        :raises StandsInTheWayError: the group has live members, and `member` is None or not one of them.
        :raises StandsInTheWayError: the offsets read back differ.
        """
        asking = self.asking(timeout_s)
        each_bytes = len(group.encode()) + _OVERHEAD_BYTES

        def size(entry: tuple[Partition, Committed]) -> int:
            (topic, _), (_, metadata) = entry
            return each_bytes + len(topic) + len(metadata.encode())

        for portion in portions(committed.items(), _MAX_COMMIT_BYTES, size):
            commit = partial(_commit, asking, group, portion, member, still_ours)
            at_coordinator(asking, "commit offsets of the group", group, commit)
        found = _read(asking, [group])[group]
        for key, value in committed.items():
            if found.get(key) != value:
                raise StandsInTheWayError(
                    asking.cluster,
                    f"group {group}: {key[0]}-{key[1]} was committed as {value} and is read back as {found.get(key)}. "
                    "Another client commits for this group: stop it, then try again.",
                )

    def delete_group_offsets(
        self,
        group: str,
        partitions: Collection[Partition],
        still_ours: StillOurs,
        timeout_s: float | None = None,
    ) -> tuple[Partition, ...]:
        """Deletes committed offsets; returns those that stay because live members are subscribed to the topics."""
        asking = self.asking(timeout_s)
        topics = topic_entries((topic, {"partition_index": index}) for topic, index in sorted(partitions))

        def ask(node: int) -> tuple[Partition, ...] | Again:
            still_ours()
            answer = asking.call(node, ApiKey.OFFSET_DELETE, {"group_id": group, "topics": topics})
            codes = {key: part["error_code"] for key, part in partitions_of(answer["topics"])}
            failed = {answer["error_code"], *codes.values()} - {*_NOTHING_THERE, *_SUBSCRIBED}
            if refused := failed - {0, *_WORTH_WAITING}:
                raise refusal(asking.cluster, f"delete offsets of group {group}", min(refused))
            if worst := _worst(failed):
                return Again(name_of(worst))
            if answer["error_code"] in _SUBSCRIBED:
                return tuple(partitions)
            return tuple(key for key, code in codes.items() if code in _SUBSCRIBED)

        return at_coordinator(asking, "delete offsets of the group", group, ask) if partitions else ()


def at_coordinators(
    asking: Asking,
    what: str,
    groups: Collection[str],
    ask: Callable[[int, list[str]], Iterable[tuple[str, T | Again]]],
    some: bool = False,
) -> dict[str, T]:
    """Asks the groups' coordinators, see `Asking.rounds`.

    :param some: leave out groups without an answer at the deadline.
    """
    return asking.rounds(what, groups, partial(_coordinators, asking), ask, some)


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


def describe(asking: Asking, groups: Collection[str], some: bool = False) -> dict[str, GroupDescription]:
    """State and members of `groups`, batched by coordinator."""

    def ask(node: int, names: list[str]) -> Answers[str, GroupDescription]:
        for _, answer in asking.calls(
            node, ApiKey.DESCRIBE_GROUPS, names, _MAX_PER_REQUEST, lambda some: {"groups": some}
        ):
            for group in answer["groups"]:
                name = group["group_id"]
                yield name, asking.again(f"describe group {name}", group["error_code"]) or _description(group, node)

    return at_coordinators(asking, "describe the groups", groups, ask, some)


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


def _read(
    asking: Asking, groups: Collection[str], stable: bool = True, some: bool = False
) -> dict[str, dict[Partition, Committed]]:
    def ask(node: int, names: list[str]) -> Answers[str, dict[Partition, Committed]]:
        answers = asking.calls(node, ApiKey.OFFSET_FETCH, names, _MAX_GROUPS_PER_REQUEST, message, _SEVERAL_GROUPS_FROM)
        for (first, *_), answer in answers:
            for group in answer["groups"] or [answer | {"group_id": first}]:
                name, parts = group["group_id"], dict(partitions_of(group["topics"]))
                codes = {group["error_code"], *(part["error_code"] for part in parts.values())}
                committed = {
                    key: (part["committed_offset"], part["metadata"] or "")
                    for key, part in parts.items()
                    if part["committed_offset"] >= 0
                }
                yield name, asking.again(f"read committed offsets of group {name}", _worst(codes)) or committed

    def message(some: Sequence[str]) -> dict[str, Any]:
        every = [{"group_id": group, "topics": None} for group in some]
        return every[0] | {"groups": every, "require_stable": stable}

    return at_coordinators(asking, "read committed offsets", groups, ask, some)


def _worst(codes: Iterable[int]) -> int:
    """The worst of the codes: one that is not retriable, if there is one."""
    return min((code for code in codes if code), key=lambda code: (code in RETRIABLE, code), default=0)


def _commit(
    asking: Asking,
    group: str,
    offsets: Iterable[tuple[Partition, Committed]],
    member: Member | None,
    still_ours: StillOurs,
    node: int,
) -> bool | Again:
    still_ours()
    topics = topic_entries(
        (
            topic,
            {
                "partition_index": index,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": metadata,
            },
        )
        for (topic, index), (offset, metadata) in offsets
    )
    committer = Member(member_id="", generation=-1) if member is None else member
    message = {
        "group_id": group,
        "generation_id_or_member_epoch": committer.generation,
        "member_id": committer.member_id,
    }
    answer = asking.call(node, ApiKey.OFFSET_COMMIT, message | {"topics": topics})
    codes = {part["error_code"]: key for key, part in partitions_of(answer["topics"]) if part["error_code"]}
    if refused := codes.keys() - _WORTH_WAITING:
        code = min(refused)
        if code in _NOT_OURS:
            who = (
                "a client that is no member"
                if member is None
                else f"member {member.member_id} of generation {member.generation}"
            )
            raise StandsInTheWayError(
                asking.cluster,
                f"group {group} refused offsets from {who}: {name_of(code)}. It has live members, or it has "
                "rebalanced: adopt it again, or stop its members in this cluster.",
            )
        topic, index = codes[code]
        raise refusal(asking.cluster, f"commit offsets of group {group} ({topic}-{index})", code)
    return Again(name_of(min(codes))) if codes else True
