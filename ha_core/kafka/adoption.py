"""Joining a group on behalf of members that live in another cluster.

Invariant: the group in this cluster becomes Stable with exactly one member per member of the origin, each with the same
assignment bytes. Gateways can then rewrite member ids, and the members continue without a rebalance.

A coordinator answers JOIN_GROUP when its generation is complete, and a connection carries one request at a time: hence
one connection per member, with all joins outstanding at once. With `group.initial.rebalance.delay.ms` 0 the first join
forms a generation alone. The leader's answer lists its generation, so an incomplete one is recognised without clocks,
and its members join again until one generation has all of them.
"""

import select
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from ha_core.kafka.brokers import Again, Asking, Brokers
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import (
    GroupNotStableError,
    KafkaAdminError,
    NotReadyError,
    RequestRefusedError,
    StandsInTheWayError,
    refusal,
)
from ha_core.kafka.facts import Adopted, GroupDescription, MemberDescription
from ha_core.kafka.groups import at_coordinator, describe, generation
from ha_core.wire.codes import RETRIABLE, ApiKey, ErrorCode, name_of

MAX_MEMBERS = 1_000
TIMEOUT_S = 30.0
"""Brokers wait 3 s for members of the first generation by default, and 3 s more after each late join."""
SESSION_TIMEOUTS_MS = (45_000, 30_000, 10_000, 6_000)
"""Tried in this order until brokers accept one (`group.max.session.timeout.ms`)."""
REBALANCE_TIMEOUT_MS = 60_000
_JOIN_VERSION = 7  # later versions only add reasons, and a skipped assignment that would need handling
_SEVERAL_LEAVE_FROM = 3
"""First LEAVE_GROUP version that takes several members."""
_MAX_ROUNDS = 20
_LEAVE_S = 5.0


class _SessionTimeoutRefusedError(Exception):
    """The broker's bounds exclude this session timeout."""


@dataclass(eq=False)
class _Seat:
    """One member of the origin, and the member that joins for it here."""

    original: MemberDescription
    connection: BlockingConnection
    member_id: str = ""
    generation: int = -1
    listed: frozenset[str] = field(default_factory=frozenset)
    """Set for the leader only: all members of its generation."""


def adopt_group(cluster: Brokers, origin: GroupDescription, timeout_s: float | None = None) -> Adopted:
    """Joins a group of another cluster here, on its members' behalf; takes at most `timeout_s`, by default 30 s.

    A group that a killed run has already adopted in this way is recognised. The adopted members have to be kept
    alive by heartbeats, at most `SESSION_TIMEOUTS_MS` apart.

    :raises GroupNotStableError: the origin's members hold no assignment at the moment.
    :raises StandsInTheWayError: the group has live members of its own here; names them.
    """
    asking = cluster.asking(timeout_s or TIMEOUT_S)
    if origin.state != "Stable" or not origin.members:
        raise GroupNotStableError(
            asking.cluster,
            f"group {origin.name} cannot be adopted while it is {origin.state} with {len(origin.members)} members "
            "in its cluster. Wait until it is Stable; a group without members needs no adoption.",
        )
    if len(origin.members) > MAX_MEMBERS:
        raise RequestRefusedError(
            asking.cluster,
            f"group {origin.name} has {len(origin.members)} members, at most {MAX_MEMBERS} can be adopted. Move it "
            "while fewer are running.",
        )
    here = describe(asking, [origin.name])[origin.name]
    if here.members:
        return _recognised(asking, origin, here)
    for session_timeout_ms in SESSION_TIMEOUTS_MS:
        with suppress(_SessionTimeoutRefusedError):
            return _Joining(asking, origin, here.coordinator, session_timeout_ms).join()
    raise refusal(asking.cluster, f"join group {origin.name}", ErrorCode.INVALID_SESSION_TIMEOUT)


def keep_members_alive(cluster: Brokers, adopted: Adopted, timeout_s: float | None = None) -> None:
    """Keeps adopted members alive.

    :raises StandsInTheWayError: the group has rebalanced or lost members: the adoption is void.
    """
    asking = cluster.asking(timeout_s)

    def talk(connection: BlockingConnection) -> bool | Again:
        for member_id in adopted.members.values():
            body = {"group_id": adopted.group, "generation_id": adopted.generation, "member_id": member_id}
            code = connection.call(ApiKey.HEARTBEAT, body)["error_code"]
            if code in RETRIABLE:  # the coordinator is moving or loading
                return Again(name_of(code))
            if code:
                raise StandsInTheWayError(
                    asking.cluster,
                    f"group {adopted.group} no longer knows member {member_id} in generation "
                    f"{adopted.generation}: {name_of(code)}. Adopt the group again.",
                )
        return True

    what = f"keep members alive of group {adopted.group}"
    at_coordinator(asking, what, adopted.group, lambda node: asking.converse(node, talk))


def remove_members(cluster: Brokers, adopted: Adopted, timeout_s: float | None = None) -> None:
    """Removes the adopted members; members that have already left count as removed."""
    asking, group = cluster.asking(timeout_s), adopted.group

    def ask(node: int) -> bool | Again:
        codes = _leave(asking, group, node, list(adopted.members.values()))
        failed = (code for code in codes if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID))
        return asking.again(f"leave group {group}", next(failed, ErrorCode.NONE)) or True

    at_coordinator(asking, f"take the adopted members of group {group}", group, ask)


@dataclass
class _Joining:
    """One attempt to join a group, with one session timeout."""

    asking: Asking
    origin: GroupDescription
    coordinator: int
    session_timeout_ms: int
    seats: list[_Seat] = field(default_factory=list)

    def join(self) -> Adopted:
        try:
            self._open()
            self._join_all()
            members = {seat.original.member_id: seat.member_id for seat in self.seats}
            adopted = Adopted(self.origin.name, self.seats[0].generation, members)
            self._check(adopted)
        except BaseException:
            with suppress(KafkaAdminError):
                ids = [seat.member_id for seat in self.seats if seat.member_id]
                _leave(self.asking.by(Deadline.after(_LEAVE_S)), self.origin.name, self.coordinator, ids)
            raise
        else:
            return adopted
        finally:
            for seat in self.seats:
                seat.connection.close()

    def _open(self) -> None:
        def open_for(member: MemberDescription) -> _Seat:
            return _Seat(member, self.asking.open(self.coordinator, member.client_id))

        opened = self.asking.on_each(self.origin.members, open_for)
        self.seats = [seat for seat in opened if isinstance(seat, _Seat)]
        for error in opened:
            if isinstance(error, KafkaAdminError):
                raise error

    def _join_all(self) -> None:
        for _ in range(_MAX_ROUNDS):
            self._gather()
            if self._sync():
                return
        raise self._in_use(f"rebalanced {_MAX_ROUNDS} times while it was joined. Stop its members here.")

    def _gather(self) -> None:
        """Returns when one generation has all our members and no others."""
        waiting: set[_Seat] = set()
        self._send_joins(self.seats, waiting)
        while True:
            again = []
            for seat in self._answered(waiting):
                answer = seat.connection.receive()
                waiting.discard(seat)
                if not self._record_join(seat, answer):
                    again.append(seat)
            self._send_joins(again, waiting)
            newest = max(seat.generation for seat in self.seats)
            leader = next((seat for seat in self.seats if seat.generation == newest and seat.listed), None)
            if leader is None:
                continue
            ours = {seat.member_id for seat in self.seats}
            others = leader.listed - ours
            if others:
                raise self._in_use(
                    f"was joined by {', '.join(sorted(others)[:5])} meanwhile. Stop the clients that use this "
                    "cluster directly, then try again."
                )
            if leader.listed != ours:
                self._send_joins([s for s in self.seats if s not in waiting and s.generation >= 0], waiting)
            elif not waiting:
                return

    def _send_joins(self, seats: Iterable[_Seat], waiting: set[_Seat]) -> None:
        for seat in seats:
            more = {
                "session_timeout_ms": self.session_timeout_ms,
                "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
                "protocols": [{"name": self.origin.protocol, "metadata": seat.original.metadata}],
            }
            seat.connection.send(ApiKey.JOIN_GROUP, self._member_fields(seat) | more, _JOIN_VERSION)
            waiting.add(seat)

    def _member_fields(self, seat: _Seat) -> dict[str, Any]:
        """Fields that requests have for each member."""
        return {
            "group_id": self.origin.name,
            "member_id": seat.member_id,
            "group_instance_id": seat.original.instance_id,
            "protocol_type": self.origin.protocol_type,
        }

    def _answered(self, waiting: Collection[_Seat]) -> list[_Seat]:
        poller = select.poll()
        seats = {seat.connection.fileno(): seat for seat in waiting}
        for number in seats:
            poller.register(number, select.POLLIN)
        deadline = self.asking.deadline
        ready = poller.poll(deadline.left_s * 1000)
        if not ready:
            raise NotReadyError(
                self.asking.cluster,
                f"group {self.origin.name} was not joined within {deadline.seconds:g} s ({len(waiting)} of "
                f"{len(self.seats)} joins have no answer). Its group.initial.rebalance.delay.ms may be longer: allow "
                "more time.",
            )
        return [seats[number] for number, _ in ready]

    def _record_join(self, seat: _Seat, answer: dict[str, Any]) -> bool:
        """Records the answer to a join; False if it has to be sent again."""
        code = answer["error_code"]
        if code == ErrorCode.NONE:
            seat.member_id, seat.generation = answer["member_id"], answer["generation_id"]
            seat.listed = frozenset(member["member_id"] for member in answer["members"])
            return True
        seat.generation, seat.listed = -1, frozenset()
        if code == ErrorCode.INVALID_SESSION_TIMEOUT:
            raise _SessionTimeoutRefusedError
        if code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            seat.member_id = answer["member_id"]
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            seat.member_id = ""
        elif code != ErrorCode.REBALANCE_IN_PROGRESS:
            what = f"join group {self.origin.name} for {seat.original.member_id}"
            raise refusal(self.asking.cluster, what, code)
        return False

    def _sync(self) -> bool:
        """The leader distributes the origin's assignments; False if the group rebalanced meanwhile."""
        everyone = [{"member_id": seat.member_id, "assignment": seat.original.assignment} for seat in self.seats]
        for seat in self.seats:
            more = {
                "generation_id": seat.generation,
                "protocol_name": self.origin.protocol,
                "assignments": everyone if seat.listed else [],
            }
            seat.connection.send(ApiKey.SYNC_GROUP, self._member_fields(seat) | more)
        answers = [seat.connection.receive() for seat in self.seats]
        for seat, answer in zip(self.seats, answers, strict=True):
            code = answer["error_code"]
            if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
                return False
            if code:
                raise refusal(self.asking.cluster, f"assign partitions in group {self.origin.name}", code)
            if answer["assignment"] != seat.original.assignment:
                raise self._in_use(
                    f"gave {seat.member_id} another assignment than the leader sent. Stop its members here."
                )
        return True

    def _check(self, adopted: Adopted) -> None:
        here = describe(self.asking, [adopted.group])[adopted.group]
        members = {member.member_id for member in here.members}
        if here.state != "Stable" or members != set(adopted.members.values()):
            raise self._in_use(
                f"is {here.state} with {len(members)} members after {len(adopted.members)} were adopted. Stop its "
                "members here."
            )

    def _in_use(self, why: str) -> StandsInTheWayError:
        return StandsInTheWayError(self.asking.cluster, f"group {self.origin.name} {why}")


def _recognised(asking: Asking, origin: GroupDescription, here: GroupDescription) -> Adopted:
    free: dict[Any, list[str]] = {}
    for member in here.members:
        free.setdefault(_likeness(member), []).append(member.member_id)
    pairs = {member.member_id: like.pop() for member in origin.members if (like := free.get(_likeness(member)))}
    if here.state == "Stable" and len(pairs) == len(origin.members) == len(here.members):
        return Adopted(here.name, generation(asking, here), pairs)
    named = ", ".join(f"{member.member_id} at {member.host}" for member in here.members[:5])
    raise StandsInTheWayError(
        asking.cluster,
        f"group {here.name} is {here.state} with {len(here.members)} live members of its own ({named}). Stop the "
        "clients that use this cluster directly, or wait for the end of their session, then try again.",
    )


_likeness = attrgetter("instance_id", "client_id", "metadata", "assignment")


def _leave(asking: Asking, group: str, coordinator: int, members: Sequence[str]) -> list[int]:
    """Error codes of the request and of each member, as far as the broker's version has them."""

    def message(some: Sequence[str]) -> dict[str, Any]:
        return {"group_id": group, "member_id": some[0], "members": [{"member_id": member} for member in some]}

    answers = asking.calls(coordinator, ApiKey.LEAVE_GROUP, members, MAX_MEMBERS, message, _SEVERAL_LEAVE_FROM)
    return [result["error_code"] for _, answer in answers for result in (answer, *answer["members"])]
