"""How gateways follow the platform: the state that each has in force of each kind, and read failures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ha_core.datacache.core.errors import UnknownNodeError
from ha_core.datacache.zookeeper import CacheNodes, CacheStatus, statuses
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError


@dataclass(frozen=True, slots=True)
class CacheStanding:
    """
    :ivar cache: `users`, `rules`, `settings`.
    :ivar committed: the commit time of the newest change; empty: there is none.
    :ivar gateways: those that follow; for a gateway with workers, each worker (`gw-1.0`).
    :ivar behind: those of them that have an older state in force.
    :ivar cannot_read: gateway → the reason in a word, and since when.
    """

    cache: str
    committed: str
    gateways: tuple[str, ...]
    behind: tuple[str, ...]
    cannot_read: dict[str, str]


def caches(environment: Environment) -> tuple[CacheStanding, ...]:
    return tuple(map(_standing, statuses(environment.store.tree)))


def ask_reload(environment: Environment, cache: str, gateway: str | None) -> list[str]:
    """Make a gateway, or all that follow, read everything again; returns them, which may be none.

    :raises RefusedError: this one does not follow.
    """
    tree = environment.store.tree
    if not any(one.name == cache for one in statuses(tree)):
        return []
    try:
        return CacheNodes(tree, cache).ask_reload(gateway)
    except UnknownNodeError as error:
        raise RefusedError(f"Nothing was done: {error}.") from error


def _standing(found: CacheStatus) -> CacheStanding:
    return CacheStanding(
        cache=found.name,
        committed=_utc(found.commit_us / 1e6) if found.commit_us else "",
        gateways=tuple(node.member.node for node in found.nodes),
        behind=tuple(node.member.node for node in found.lagging),
        cannot_read={
            node.member.node: f"{node.published.trouble} since {_utc(node.published.trouble_since_s)}"
            for node in found.troubled
        },
    )


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
