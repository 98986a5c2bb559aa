"""Cost of an operation's fence for clients, as gateways report it in their records."""

from __future__ import annotations

from typing import Any

from ha_core.model import MoveOperation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.journal import Journal

MAX_USERS = 50
"""Named in the history: those with the most refused requests."""


CLIENTS = "clients"
"""Key of the cost for clients in the detail of a history's entry."""


def note_client_costs(journal: Journal[MoveOperation], revision: int, seen: dict[str, Any]) -> None:
    """Put the cost into an entry's detail, if a fence stood.

    :param revision: that of the fence's end.
    """
    cost = client_costs(journal.environment, journal.operation, revision)
    if cost is not None:
        seen[CLIENTS] = cost


def client_costs(environment: Environment, operation: MoveOperation, revision: int) -> dict[str, Any] | None:
    """Refused requests, and the longest wait of each user, over all gateways; None: no fence stood.

    A gateway that does not serve `revision` yet, has died since the fence, or does not count, is named: its part is
    not known.
    """
    live = environment.store.gateways()
    reported: list[str] = []
    unknown = {*operation.move_evidence.gateways} - {gateway.id for gateway in live}
    users: dict[str, tuple[int, float]] = {}
    refused = left_out = 0
    fenced = bool(operation.moves.topics or operation.moves.groups)
    for gateway in live:
        cost = (gateway.fence_costs or {}).get(operation.id)
        if gateway.fence_costs is None or gateway.revision < revision or (cost is None and fenced):
            unknown.add(gateway.id)
            continue
        reported.append(gateway.id)
        if cost is not None:
            refused += cost.refused
            left_out += cost.users_left_out
            for user, (count, longest_ms) in cost.users.items():
                before = users.get(user, (0, 0.0))
                users[user] = before[0] + count, max(before[1], longest_ms)
    if not reported and not operation.FENCES:
        return None
    most = sorted(users.items(), key=lambda one: (-one[1][0], one[0]))
    return {
        "reported": reported,
        "not_known_of": sorted(unknown),
        "refused": refused,
        "users": {user: list(cost) for user, cost in most[:MAX_USERS]},
        "users_left_out": left_out + max(0, len(most) - MAX_USERS),
    }
