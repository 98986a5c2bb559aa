"""Requests that fences have refused, by operation and user, for the operations' histories.

Bounded: the newest operations, and the users of each that came first; further users count together.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from ha_core.model.gateway import FenceCost

MAX_OPERATIONS = 8
MAX_USERS = 50
"""By operation. A user is named in some 40 bytes of the gateway's record, which has 1 MB."""
MAX_NAME = 200
"""Characters of a user's name: a client chooses it where it need not log in."""


@dataclass(slots=True)
class _RefusedUser:
    first: float
    refused: int = 0


@dataclass(slots=True)
class _CountedFence:
    ended: float | None = None
    users: dict[str, _RefusedUser] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    refused: int = 0


@dataclass(slots=True, eq=False)
class FenceCosts:
    """Used on the event loop only. Times are those of sessions."""

    _fences: dict[str, _CountedFence] = field(default_factory=dict)

    def follow(self, standing: Collection[str], now: float) -> None:
        """These operations' fences stand from now on; other fences have ended."""
        for operation in sorted(standing):
            self._fences.setdefault(operation, _CountedFence())
        for operation, fence in self._fences.items():
            if operation in standing:
                fence.ended = None
            elif fence.ended is None:
                fence.ended = now
        ended = [operation for operation, fence in self._fences.items() if fence.ended is not None]
        for operation in ended[: max(0, len(self._fences) - MAX_OPERATIONS)]:
            del self._fences[operation]

    def refused(self, operation: str, user: str, now: float) -> None:
        """A request of the user was refused, or a part of a long one; its client sends it again."""
        fence = self._fences.get(operation)
        if fence is None:
            return
        fence.refused += 1
        name = user[:MAX_NAME]
        found = fence.users.get(name)
        if found is None:
            if len(fence.users) >= MAX_USERS:
                if len(fence.others) < MAX_USERS * 100:
                    fence.others.add(name)
                return
            found = fence.users[name] = _RefusedUser(now)
        found.refused += 1

    def report(self, now: float) -> dict[str, FenceCost]:
        """By operation, of fences that stood here: those without a refused request too."""
        return {operation: _cost(fence, now) for operation, fence in self._fences.items()}


def _cost(fence: _CountedFence, now: float) -> FenceCost:
    until = now if fence.ended is None else fence.ended
    users = {name: (one.refused, round(max(0.0, until - one.first) * 1000, 1)) for name, one in fence.users.items()}
    return FenceCost(refused=fence.refused, users=users, users_left_out=len(fence.others))
