"""How gateways follow the platform: the state that each has in force of each kind, read failures, enforced changes.

Kinds that no gateway reads are not in force.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ha_core.datacache.core.errors import UnknownNodeError
from ha_core.datacache.zookeeper import CacheNodes, CacheStatus, statuses
from ha_core.model import PlatformChange
from ha_core.model.gateway import by_gateway
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.verdict import amount, listed


@dataclass(frozen=True, slots=True)
class CacheStanding:
    """
    :ivar cache: `users`, `rules`, `settings`.
    :ivar committed: the commit time of the newest change; empty: there is none.
    :ivar gateways: those that follow; for a gateway with workers, each worker (`gw-1.0`).
    :ivar lagging: those of them that serve an older state.
    :ivar cannot_read: gateway → the reason in a word, and since when.
    """

    cache: str
    committed: str
    gateways: tuple[str, ...]
    lagging: tuple[str, ...]
    cannot_read: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            "cache": self.cache,
            "committed": self.committed,
            "gateways": self.gateways,
            "behind": self.lagging,
            "cannot_read": self.cannot_read,
        }


def caches(environment: Environment) -> tuple[CacheStanding, ...]:
    return tuple(map(_standing, statuses(environment.store.tree)))


def ask_reload(environment: Environment, cache: str, gateway: str | None) -> list[str]:
    """Make a gateway, or all that follow, read everything again; returns them, which may be none.

    :raises RefusedError: this one does not follow.
    """
    tree = environment.store.tree
    if not any(status.name == cache for status in statuses(tree)):
        return []
    try:
        return CacheNodes(tree, cache).ask_reload(gateway)
    except UnknownNodeError as error:
        raise RefusedError(f"Nothing was done: {error}.") from error


def _standing(status: CacheStatus) -> CacheStanding:
    return CacheStanding(
        cache=status.name,
        committed=_utc(status.commit_us / 1e6) if status.commit_us else "",
        gateways=tuple(node.member.node for node in status.nodes),
        lagging=tuple(node.member.node for node in status.lagging),
        cannot_read={
            node.member.node: f"{node.published.trouble} since {_utc(node.published.trouble_since_s)}"
            for node in status.troubled
        },
    )


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


WAIT_S = 3.0
"""Gateways read a change within a second after the platform's service announces it."""
PAUSE_S = 0.2
QUOTAS, CLUSTERS = "quotas", "clusters"
FOLLOWED = frozenset({"users", "rules", "settings", QUOTAS, CLUSTERS})
"""Kinds that gateways enforce."""

Known = Callable[[str, int], bool]
"""Whether a kind has a change of exactly this time in the database: another database has none of its times."""


def enforced(
    environment: Environment,
    changed_us: Mapping[str, int],
    known: Known,
    database: str = "",
    wait_s: float | None = None,
) -> Iterator[str]:
    """A sentence for each kind, after waiting a moment for gateways to follow. The changes are noted in ZooKeeper:
    `switchyard status --check` names those that no gateway follows.

    :param changed_us: kind → time of its newest change.
    :param database: its name, without a password.
    :param wait_s: None: `WAIT_S`.
    """
    deadline = environment.monotonic() + (WAIT_S if wait_s is None else wait_s)
    while True:
        live = {
            name: {gateway.id for gateway in workers}
            for name, workers in by_gateway(environment.store.gateways()).items()
        }
        found = {kind: _state(environment, kind, at_us, known, live) for kind, at_us in sorted(changed_us.items())}
        if all(state is None or len(state) == len(live) for state in found.values()):
            break
        if environment.monotonic() >= deadline:
            break
        environment.sleep(PAUSE_S)
    for kind, state in found.items():
        _note(environment, kind, changed_us[kind], database, followed=state is not None)
        yield _sentence(kind, state, len(live))


NOTED = FOLLOWED - {CLUSTERS}
"""Kinds whose newest change is noted; that of a cluster is in its document."""


def _note(environment: Environment, kind: str, at_us: int, database: str, followed: bool) -> None:
    if kind not in NOTED:
        return
    elsewhere = set() if followed else _served_us(environment, kind) - {0}
    change = PlatformChange(
        kind=kind, changed_us=at_us, by=environment.by, database=database, elsewhere_us=tuple(sorted(elsewhere))
    )
    environment.store.note_platform_change(change)


def _served_us(environment: Environment, kind: str) -> set[int]:
    """Changes up to which the followers of a kind serve; 0: nothing yet."""
    if kind == QUOTAS:
        return {environment.store.publication().through_us} - {0}
    nodes = [node for status in statuses(environment.store.tree) if status.name == kind for node in status.nodes]
    return {node.published.main_us for node in nodes}


class Unfollowed(NamedTuple):
    """A noted change that is in force nowhere.

    :ivar at: time of the change. UTC, ISO 8601.
    :ivar followed: whether there is a follower, which may not have read it yet.
    """

    change: PlatformChange
    at: str
    followed: bool

    @property
    def why(self) -> str:
        return "those that follow have not read it" if self.followed else _NOBODY[self.change.kind == QUOTAS]


def unfollowed(environment: Environment) -> Iterator[Unfollowed]:
    """Noted changes that no gateway serves. Without the database, its followers are known by their times alone."""
    for change in environment.store.platform_changes():
        if change.kind in NOTED:
            served = _served_us(environment, change.kind) - {*change.elsewhere_us}
            if not any(at_us >= change.changed_us for at_us in served):
                yield Unfollowed(change, _utc(change.changed_us / 1e6), bool(served))


def _sentence(kind: str, enforcing: list[str] | None, live: int) -> str:
    if kind not in FOLLOWED:
        return f"{kind}: no gateway reads them from the platform."
    if kind == CLUSTERS and not enforcing:
        return (
            "clusters: not in force. The platform's service (`switchyard platform serve --zookeeper …`) registers "
            "clusters that answer, and names the others; a deleted one stays registered (`switchyard clusters remove`)."
        )
    if enforcing is None:
        return f"{kind}: not in force, since {_NOBODY[kind == QUOTAS]}."
    sentence = f"{kind}: in force at {len(enforcing)} of {amount(live, 'gateway')}"
    if len(enforcing) == live:
        return f"{sentence}."
    return f"{sentence} ({listed(enforcing) or 'none'}). Others that follow read within a minute: `switchyard status`."


_NOBODY = {
    False: "no gateway follows this database (`platform:` in a gateway's configuration)",
    True: "no service publishes the quotas of this database (`switchyard platform serve`)",
}


def _state(
    environment: Environment, kind: str, at_us: int, known: Known, live: Mapping[str, set[str]]
) -> list[str] | None:
    """Gateways that enforce the change; None: none follows this database."""
    if kind not in FOLLOWED:
        return None
    if kind == QUOTAS:
        published_us = environment.store.publication().through_us
        if not known(kind, published_us):
            return None
        return sorted(live) if published_us >= at_us else []
    if kind == CLUSTERS:  # its publisher has waited until gateways serve it
        changes = {cluster.platform_us for cluster in environment.store.clusters().values()}
        return sorted(live) if at_us in changes else []
    nodes = [node for status in statuses(environment.store.tree) if status.name == kind for node in status.nodes]
    following = {node.member.node: node.published.main_us for node in nodes if known(kind, node.published.main_us)}
    if not following:
        return None
    ahead = {node for node, main_us in following.items() if main_us >= at_us}
    return sorted(name for name, workers in live.items() if workers <= ahead)
