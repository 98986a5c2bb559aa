"""Joining a group on behalf of members that live in another cluster.

Invariant: the group here becomes Stable with exactly one member for each member of the origin, each holding the bytes
of assignment that its original holds; then gateways can rewrite ids and the members go on without a rebalance.

A JOIN_GROUP is answered when the coordinator has gathered its generation, and a connection carries one request at a
time: hence one connection per member, all joins outstanding at once. With `group.initial.rebalance.delay.ms` 0 the
first join makes a generation alone. The leader's answer lists its generation, so an incomplete one is recognised
without clocks, and those who were answered join again until one generation has all.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.connection import Connection
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import (
    GroupInUseError,
    GroupNotStableError,
    KafkaAdminError,
    NotSettledError,
    RequestRefusedError,
    refusal,
    retriable,
    why_again,
)
from ha_core.kafka.facts import Adopted, GroupDescription, MemberDescription
from ha_core.kafka.groups import Coordinators, describe, generation
from ha_core.wire.codes import ApiKey, ErrorCode, name_of

MAX_MEMBERS = 1_000
TIMEOUT_S = 30.0
"""Brokers gather the first generation for 3 s by default, and for as long again after each late join."""
SESSION_TIMEOUTS_MS = (45_000, 30_000, 10_000, 6_000)
"""In this order while brokers refuse them (`group.max.session.timeout.ms`)."""
REBALANCE_TIMEOUT_MS = 60_000
_JOIN_VERSION = 7  # later ones only add reasons, and a skipped assignment that would have to be understood
_MAX_ROUNDS = 20
_LEAVE_S = 5.0


class _SessionTimeoutRefusedError(Exception):
    """The broker's bounds exclude this session timeout."""


@dataclass(eq=False)
class _Seat:
    """One original member, and who it is becoming here."""

    original: MemberDescription
    connection: Connection
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    listed: frozenset[str] = field(default_factory=frozenset)
    """The leader's seat only: everyone in its generation."""


def adopt(brokers: Brokers, origin: GroupDescription, deadline: Deadline) -> Adopted:
    """Joins `origin` here. A group that was already adopted just so (by a run that was killed) is recognised.

    The adopted members have to be kept alive by heartbeats, at most `SESSION_TIMEOUTS_MS` apart.

    :raises GroupNotStableError: the origin's members hold no assignment at the moment.
    :raises GroupInUseError: the group has live members of its own here; names them.
    """
    if origin.state != "Stable" or not origin.members:
        raise GroupNotStableError(
            brokers.cluster,
            f"group {origin.name} cannot be adopted while it is {origin.state} with {len(origin.members)} members in "
            "its cluster. Wait until it is Stable; a group without members needs no adoption.",
        )
    if len(origin.members) > MAX_MEMBERS:
        raise RequestRefusedError(
            brokers.cluster,
            f"group {origin.name} has {len(origin.members)} members, at most {MAX_MEMBERS} can be adopted. Move it "
            "while fewer are running.",
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        )
    here = describe(brokers, [origin.name], deadline)[origin.name]
    if here.members:
        return _recognised(brokers, origin, here, deadline)
    for session_timeout_ms in SESSION_TIMEOUTS_MS:
        with suppress(_SessionTimeoutRefusedError):
            return _join(brokers, origin, here.coordinator, session_timeout_ms, deadline)
    raise refusal(brokers.cluster, f"join group {origin.name}", ErrorCode.INVALID_SESSION_TIMEOUT)


def heartbeat(brokers: Brokers, adopted: Adopted, deadline: Deadline) -> None:
    """Says that every adopted member is alive.

    :raises GroupInUseError: the group has rebalanced or lost members: the adoption is void.
    """

    def talk(connection: Connection) -> list[int]:
        codes = []
        for member_id in adopted.members.values():
            body = {"group_id": adopted.group, "generation_id": adopted.generation, "member_id": member_id}
            codes.append(connection.call(ApiKey.HEARTBEAT, body, deadline)["error_code"])
        return codes

    def ask(node: int, _: list[str]) -> tuple[dict[str, bool], dict[str, str]]:
        for member_id, code in zip(adopted.members.values(), brokers.converse(node, talk, deadline), strict=True):
            if retriable(code):  # the coordinator is moving or loading
                return {}, {adopted.group: name_of(code)}
            if code:
                raise GroupInUseError(
                    brokers.cluster,
                    f"group {adopted.group} no longer knows member {member_id} in generation {adopted.generation}: "
                    f"{name_of(code)}. Adopt the group again.",
                )
        return {adopted.group: True}, {}

    _at_coordinator(brokers, adopted.group, "keep members alive", ask, deadline)


def leave(brokers: Brokers, adopted: Adopted, deadline: Deadline) -> None:
    """Takes the adopted members out again; those who are gone already count as done."""
    members = list(adopted.members.values())

    def ask(node: int, _: list[str]) -> tuple[dict[str, bool], dict[str, str]]:
        for code in _leave(brokers, adopted.group, node, members, deadline):
            if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
                return {}, {adopted.group: why_again(brokers.cluster, f"leave group {adopted.group}", code)}
        return {adopted.group: True}, {}

    _at_coordinator(brokers, adopted.group, "take the adopted members", ask, deadline)


def _join(
    brokers: Brokers, origin: GroupDescription, coordinator: int, session_timeout_ms: int, deadline: Deadline
) -> Adopted:
    seats = _seats(brokers, origin, coordinator, deadline)
    try:
        _settle(brokers, origin, seats, session_timeout_ms, deadline)
        adopted = Adopted(origin.name, seats[0].generation, {seat.original.member_id: seat.member_id for seat in seats})
        _check(brokers, adopted, deadline)
    except BaseException:
        with suppress(KafkaAdminError):
            ids = [seat.member_id for seat in seats if seat.member_id]
            _leave(brokers, origin.name, coordinator, ids, Deadline.after(_LEAVE_S))
        raise
    else:
        return adopted
    finally:
        for seat in seats:
            seat.connection.close()


def _settle(
    brokers: Brokers, origin: GroupDescription, seats: list[_Seat], session_timeout_ms: int, deadline: Deadline
) -> None:
    for _ in range(_MAX_ROUNDS):
        _gather(brokers, origin, seats, session_timeout_ms, deadline)
        if _sync(brokers, origin, seats, deadline):
            return
    raise GroupInUseError(
        brokers.cluster,
        f"group {origin.name} rebalanced {_MAX_ROUNDS} times while it was joined. Stop its members here.",
    )


def _seats(brokers: Brokers, origin: GroupDescription, coordinator: int, deadline: Deadline) -> list[_Seat]:
    opened = brokers.on_each(
        {member: partial(brokers.open, coordinator, deadline, member.client_id) for member in origin.members}
    )
    failures = [one for one in opened.values() if isinstance(one, KafkaAdminError)]
    if failures:
        for one in opened.values():
            if isinstance(one, Connection):
                one.close()
        raise failures[0]
    return [_Seat(member, one) for member, one in opened.items() if isinstance(one, Connection)]


def _gather(
    brokers: Brokers, origin: GroupDescription, seats: list[_Seat], session_timeout_ms: int, deadline: Deadline
) -> None:
    """Returns when one generation has all seats and nobody else."""

    def join(some: Iterable[_Seat]) -> None:
        for seat in some:
            body = {
                "group_id": origin.name,
                "session_timeout_ms": session_timeout_ms,
                "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
                "member_id": seat.member_id,
                "group_instance_id": seat.original.instance_id,
                "protocol_type": origin.protocol_type,
                "protocols": [{"name": origin.protocol, "metadata": seat.original.metadata}],
            }
            seat.connection.send(ApiKey.JOIN_GROUP, body, deadline, _JOIN_VERSION)
            waiting.add(seat)

    waiting: set[_Seat] = set()
    join(seats)
    while True:
        again = []
        for seat in _answered(brokers, origin, waiting, deadline):
            answer = seat.connection.receive(deadline)
            waiting.discard(seat)
            if not _taken(brokers, origin, seat, answer):
                again.append(seat)
        join(again)
        newest = max(seat.generation for seat in seats)
        leader = next((seat for seat in seats if seat.generation == newest and seat.listed), None)
        if leader is None:
            continue
        ours = {seat.member_id for seat in seats}
        strangers = leader.listed - ours
        if strangers:
            raise GroupInUseError(
                brokers.cluster,
                f"group {origin.name} was joined by {', '.join(sorted(strangers)[:5])} meanwhile. Stop the clients "
                "that use this cluster directly, then try again.",
            )
        if leader.listed != ours:
            join([seat for seat in seats if seat not in waiting and seat.generation >= 0])
        elif not waiting:
            return


def _answered(brokers: Brokers, origin: GroupDescription, waiting: set[_Seat], deadline: Deadline) -> Sequence[_Seat]:
    poller = select.poll()
    seats = {seat.connection.fileno(): seat for seat in waiting}
    for number in seats:
        poller.register(number, select.POLLIN)
    ready = poller.poll(deadline.left_s * 1000)
    if not ready:
        raise NotSettledError(
            brokers.cluster,
            f"group {origin.name} was not joined within {deadline.seconds:g} s ({len(waiting)} of "
            f"{len(origin.members)} joins have no answer). Its group.initial.rebalance.delay.ms may be longer: allow "
            "more time.",
        )
    return [seats[number] for number, _ in ready]


def _taken(brokers: Brokers, origin: GroupDescription, seat: _Seat, answer: dict[str, Any]) -> bool:
    """Notes what a join was answered; False where it has to be sent again."""
    code = answer["error_code"]
    if code == ErrorCode.NONE:
        seat.member_id, seat.generation, seat.leader = answer["member_id"], answer["generation_id"], answer["leader"]
        seat.listed = frozenset(one["member_id"] for one in answer["members"])
        return True
    seat.generation, seat.listed = -1, frozenset()
    if code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
        seat.member_id = answer["member_id"]
        return False
    if code == ErrorCode.UNKNOWN_MEMBER_ID:
        seat.member_id = ""
        return False
    if code == ErrorCode.REBALANCE_IN_PROGRESS:
        return False
    if code == ErrorCode.INVALID_SESSION_TIMEOUT:
        raise _SessionTimeoutRefusedError
    raise refusal(brokers.cluster, f"join group {origin.name} for {seat.original.member_id}", code)


def _sync(brokers: Brokers, origin: GroupDescription, seats: list[_Seat], deadline: Deadline) -> bool:
    """The leader hands out what the originals hold; False where a rebalance came in between."""
    everyone = [{"member_id": seat.member_id, "assignment": seat.original.assignment} for seat in seats]
    for seat in seats:
        body = {
            "group_id": origin.name,
            "generation_id": seat.generation,
            "member_id": seat.member_id,
            "group_instance_id": seat.original.instance_id,
            "protocol_type": origin.protocol_type,
            "protocol_name": origin.protocol,
            "assignments": everyone if seat.member_id == seat.leader else [],
        }
        seat.connection.send(ApiKey.SYNC_GROUP, body, deadline)
    answers = [seat.connection.receive(deadline) for seat in seats]
    for seat, answer in zip(seats, answers, strict=True):
        code = answer["error_code"]
        if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
            return False
        if code:
            raise refusal(brokers.cluster, f"assign partitions in group {origin.name}", code)
        if answer["assignment"] != seat.original.assignment:
            raise GroupInUseError(
                brokers.cluster,
                f"group {origin.name} gave {seat.member_id} another assignment than it was told. Stop its "
                "members here.",
            )
    return True


def _check(brokers: Brokers, adopted: Adopted, deadline: Deadline) -> None:
    here = describe(brokers, [adopted.group], deadline)[adopted.group]
    found = {member.member_id for member in here.members}
    if here.state != "Stable" or found != set(adopted.members.values()):
        raise GroupInUseError(
            brokers.cluster,
            f"group {adopted.group} is {here.state} with {len(found)} members after {len(adopted.members)} were "
            "adopted. Stop its members here.",
        )


def _recognised(brokers: Brokers, origin: GroupDescription, here: GroupDescription, deadline: Deadline) -> Adopted:
    free: dict[tuple[str | None, str, bytes, bytes], list[str]] = {}
    for member in here.members:
        free.setdefault(_likeness(member), []).append(member.member_id)
    pairs: dict[str, str] = {}
    for member in origin.members:
        candidates = free.get(_likeness(member))
        if candidates:
            pairs[member.member_id] = candidates.pop()
    if here.state == "Stable" and len(pairs) == len(origin.members) == len(here.members):
        return Adopted(here.name, generation(brokers, here, deadline), pairs)
    named = ", ".join(f"{member.member_id} at {member.host}" for member in here.members[:5])
    raise GroupInUseError(
        brokers.cluster,
        f"group {here.name} is {here.state} with {len(here.members)} live members of its own ({named}). Stop the "
        "clients that use this cluster directly, or wait for the end of their session, then try again.",
    )


def _likeness(member: MemberDescription) -> tuple[str | None, str, bytes, bytes]:
    return member.instance_id, member.client_id, member.metadata, member.assignment


def _at_coordinator(
    brokers: Brokers,
    group: str,
    what: str,
    ask: Callable[[int, list[str]], tuple[dict[str, bool], dict[str, str]]],
    deadline: Deadline,
) -> None:
    brokers.rounds(f"{what} of group {group}", [group], Coordinators(brokers, deadline).locate, ask, deadline)


def _leave(brokers: Brokers, group: str, coordinator: int, members: Sequence[str], deadline: Deadline) -> list[int]:
    if not members:
        return []

    def talk(connection: Connection) -> list[int]:
        if connection.version(ApiKey.LEAVE_GROUP) >= 3:
            body = {"group_id": group, "members": [{"member_id": one} for one in members]}
            answer = connection.call(ApiKey.LEAVE_GROUP, body, deadline)
            return [answer["error_code"], *(one["error_code"] for one in answer["members"])]
        return [
            connection.call(ApiKey.LEAVE_GROUP, {"group_id": group, "member_id": one}, deadline)["error_code"]
            for one in members
        ]

    return brokers.converse(coordinator, talk, deadline)
