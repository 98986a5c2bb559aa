"""Offsets that groups have committed: copied as numbers, never translated, always without a leader epoch.

A leader epoch of one cluster means nothing in another one, and a consumer that starts from a committed offset with an
epoch asks the new leader to validate it: -1 switches that off.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ha_core.kafka.brokers import Brokers, by_topic, pages
from ha_core.kafka.connection import Connection
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import GroupInUseError, OffsetsNotTakenError, refusal, retriable, why_again
from ha_core.kafka.groups import Coordinators
from ha_core.model.group import Member
from ha_core.plan.facts import Partition
from ha_core.wire.codes import ApiKey, ErrorCode, name_of

Committed = tuple[int, str]
"""(offset, metadata)."""

_BATCHES_FROM = 8
"""First OFFSET_FETCH version that takes several groups."""
_MAX_GROUPS_PER_REQUEST = 100
_MAX_COMMIT_BYTES = 400_000
"""Of one request: brokers append it as one batch, whose size `max.message.bytes` of the offsets topic bounds (1 MB)."""
_OVERHEAD_BYTES = 80
_NO_MEMBER = Member(member_id="", generation=-1)


def read(
    brokers: Brokers, groups: Collection[str], deadline: Deadline, stable: bool = True
) -> dict[str, dict[Partition, Committed]]:
    """All committed offsets of `groups`. With `stable` those of an open transaction are waited for (KIP-447)."""

    def ask(node: int, asked: list[str]) -> tuple[dict[str, dict[Partition, Committed]], dict[str, str]]:
        out: dict[str, dict[Partition, Committed]] = {}
        again: dict[str, str] = {}
        for one in brokers.converse(node, lambda connection: _fetch(connection, asked, stable, deadline), deadline):
            group = one["group_id"]
            codes = {one["error_code"]} | {p["error_code"] for topic in one["topics"] for p in topic["partitions"]}
            codes.discard(0)
            if codes:
                code = min(codes, key=lambda code: (retriable(code), code))
                again[group] = why_again(brokers.cluster, f"read committed offsets of group {group}", code)
                continue
            out[group] = {
                (topic["name"], part["partition_index"]): (part["committed_offset"], part["metadata"] or "")
                for topic in one["topics"]
                for part in topic["partitions"]
                if part["committed_offset"] >= 0
            }
        return out, again

    return brokers.rounds("read committed offsets", groups, Coordinators(brokers, deadline).locate, ask, deadline)


def _fetch(connection: Connection, groups: list[str], stable: bool, deadline: Deadline) -> Iterator[dict[str, Any]]:
    api, out = ApiKey.OFFSET_FETCH, []
    if connection.version(api) >= _BATCHES_FROM:
        for page in pages(groups, _MAX_GROUPS_PER_REQUEST):
            some = [{"group_id": group, "topics": None} for group in page]
            out += connection.call(api, {"groups": some, "require_stable": stable}, deadline)["groups"]
    else:
        can_wait = connection.version(api) >= 7
        for group in groups:
            ask = {"group_id": group, "topics": None} | ({"require_stable": stable} if can_wait else {})
            out.append(connection.call(api, ask, deadline) | {"group_id": group})
    return iter(out)


def write(
    brokers: Brokers,
    group: str,
    offsets: Mapping[Partition, Committed],
    member: Member | None,
    still_ours: Callable[[], None],
    deadline: Deadline,
) -> None:
    """Commits `offsets` and reads them back. An empty group takes them from anyone, a live one from a `member` only.

    :param still_ours: raises if they must not be committed any more; asked next to each request. An empty group has
        nothing else that would refuse a commit of yesterday.
    :raises GroupInUseError: the group has live members, and `member` is None or not one of them.
    :raises OffsetsNotTakenError: what is read back differs.
    """
    who = member or _NO_MEMBER
    for some in _portions(group, offsets):

        def ask(
            node: int, _: list[str], some: Mapping[Partition, Committed] = some
        ) -> tuple[dict[str, bool], dict[str, str]]:
            still_ours()
            answer = brokers.call(node, ApiKey.OFFSET_COMMIT, _commit(group, some, who), deadline)
            codes = {part["error_code"] for topic in answer["topics"] for part in topic["partitions"]} - {0}
            if not codes:
                return {group: True}, {}
            if codes <= _WORTH_WAITING:
                return {}, {group: name_of(min(codes))}
            raise _refused(brokers, group, min(codes - _WORTH_WAITING), answer, member)

        brokers.rounds("commit offsets of the group", [group], Coordinators(brokers, deadline).locate, ask, deadline)
    found = read(brokers, [group], deadline)[group]
    for key, value in offsets.items():
        if found.get(key) != value:
            raise OffsetsNotTakenError(
                brokers.cluster,
                f"group {group}: {key[0]}-{key[1]} was committed as {value} and is read back as {found.get(key)}. "
                "Somebody else commits for this group: stop them, then try again.",
            )


def delete(
    brokers: Brokers,
    group: str,
    partitions: Collection[Partition],
    still_ours: Callable[[], None],
    deadline: Deadline,
) -> tuple[Partition, ...]:
    """Forgets what the group has committed for `partitions`; returns those that its live members are subscribed to,
    which are kept.

    :param still_ours: as for `write`.
    """
    topics = by_topic((topic, {"partition_index": index}) for topic, index in sorted(partitions))
    message = {"group_id": group, "topics": topics}

    def ask(node: int, _: list[str]) -> tuple[dict[str, tuple[Partition, ...]], dict[str, str]]:
        still_ours()
        answer = brokers.call(node, ApiKey.OFFSET_DELETE, message, deadline)
        codes = {(t["name"], p["partition_index"]): p["error_code"] for t in answer["topics"] for p in t["partitions"]}
        found = {answer["error_code"], *codes.values()} - {0, *_NOTHING_THERE, *_SUBSCRIBED}
        if found and found <= _WORTH_WAITING:
            return {}, {group: name_of(min(found))}
        if found:
            raise refusal(brokers.cluster, f"delete offsets of group {group}", min(found - _WORTH_WAITING))
        whole = tuple(partitions) if answer["error_code"] in _SUBSCRIBED else ()
        return {group: whole or tuple(key for key, code in codes.items() if code in _SUBSCRIBED)}, {}

    if not partitions:
        return ()
    locate = Coordinators(brokers, deadline).locate
    return brokers.rounds("delete offsets of the group", [group], locate, ask, deadline)[group]


def _commit(group: str, offsets: Mapping[Partition, Committed], member: Member) -> dict[str, Any]:
    parts = (
        (
            topic,
            {
                "partition_index": index,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": metadata,
            },
        )
        for (topic, index), (offset, metadata) in offsets.items()
    )
    return {
        "group_id": group,
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.member_id,
        "topics": by_topic(parts),
    }


def _portions(group: str, offsets: Mapping[Partition, Committed]) -> Iterator[dict[Partition, Committed]]:
    portion: dict[Partition, Committed] = {}
    size = 0
    for key, value in offsets.items():
        one = len(group.encode()) + len(key[0]) + len(value[1].encode()) + _OVERHEAD_BYTES
        if portion and size + one > _MAX_COMMIT_BYTES:
            yield portion
            portion, size = {}, 0
        portion[key] = value
        size += one
    if portion:
        yield portion


def _refused(brokers: Brokers, group: str, code: int, answer: dict[str, Any], member: Member | None) -> Exception:
    if code in _NOT_OURS:
        who = "nobody" if member is None else f"member {member.member_id} of generation {member.generation}"
        return GroupInUseError(
            brokers.cluster,
            f"group {group} took no offsets from {who}: {name_of(code)}. It has live members, or it has rebalanced: "
            "adopt it again, or stop its members in this cluster.",
        )
    named = next(
        f" ({topic['name']}-{part['partition_index']})"
        for topic in answer["topics"]
        for part in topic["partitions"]
        if part["error_code"] == code
    )
    return refusal(brokers.cluster, f"commit offsets of group {group}{named}", code)


_WORTH_WAITING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}
"""Not UNKNOWN_TOPIC_OR_PARTITION, which counts as retriable too: no wait makes a topic appear."""
_NOT_OURS = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
_NOTHING_THERE = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
_SUBSCRIBED = {ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
