"""The platform's service registers the platform's clusters, as `switchyard clusters add` does.

Each change is put in force once: the cluster's document keeps its time, so a restart or a second service repeats
nothing, and changes by an operator stay until the platform has a newer one. The service asks a cluster first: a change
does not come into force if the cluster does not answer, or is another cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ha_core.datacache.core.source import Row, Source
from ha_core.datacache.poller import Poller
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Cluster
from ha_core.model.cluster import NO_PROFILE
from ha_core.operations.access.platform_entries import PlatformEntries
from ha_core.operations.clusters.registered import add_cluster, require_alive, require_same
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError
from ha_core.store.errors import ConflictError, LockedError
from ha_core.store.store import Store

log = logging.getLogger(__name__)

LOOK_S = 2.0
AGAIN_S = 30.0
"""Pause before a failed change is tried again, which asks the cluster again."""


class ClusterPublisher:
    """Not thread-safe.

    :ivar problems: by cluster, why the platform's entry is not in force.
    """

    def __init__(self, source: Source) -> None:
        self._registered = PlatformEntries(source)
        self._tried: dict[str, tuple[int, float]] = {}
        """By name, the change that was tried last, and when."""
        self.problems: dict[str, str] = {}

    def look(self, environment: Environment) -> list[str]:
        """Put newer changes in force. → names of clusters that were changed."""
        self._registered.read()
        known = environment.store.clusters()
        rows = {str((row.value or {}).get("name")): row for row in self._registered.rows.values()}
        changed = [name for name, row in sorted(rows.items()) if self._in_turn(environment, row, known.get(name))]
        gone = {name for name, one in known.items() if one.platform_us and name not in rows} if rows else set[str]()
        for name in gone:
            way = f"`switchyard clusters remove {name}` removes it when nothing refers to it"
            self.problems[name] = f"cluster {name} was deleted on the platform, and stays registered: {way}"
        self.problems = {name: why for name, why in self.problems.items() if name in rows.keys() | gone}
        return changed

    def _in_turn(self, environment: Environment, row: Row, known: Cluster | None) -> bool:
        name = str((row.value or {}).get("name"))
        if known is not None and (known.platform_us or 0) >= row.changed_us:
            self.problems.pop(name, None)
            return False
        tried_us, at = self._tried.get(name, (0, 0.0))
        if tried_us == row.changed_us and environment.monotonic() - at < AGAIN_S:
            return False
        self._tried[name] = row.changed_us, environment.monotonic()
        try:
            put_in_force(environment, row, known)
        except (MoveError, KafkaAdminError, LockedError, ConflictError) as error:
            self.problems[name] = f"the platform's entry for cluster {name} is not in force: {error}"
            return False
        self.problems.pop(name, None)
        return True


def put_in_force(environment: Environment, row: Row, known: Cluster | None) -> None:
    """:raises RefusedError: it does not answer, or is another cluster than the one registered under its name."""
    value = row.value or {}
    name, bootstrap = str(value["name"]), str(value["bootstrap"])
    security = value.get("security") or (NO_PROFILE if known is None else known.security)
    if known is None or (known.bootstrap, known.security) != (bootstrap, security):
        require_alive(environment, name, bootstrap, security)
        if known is not None:
            require_same(environment, known, bootstrap, security)
    add_cluster(
        environment,
        name,
        bootstrap,
        security,
        reason="changed on the platform",
        zone=value.get("zone") or None,
        platform_us=row.changed_us,
    )


class PublishingClusters(Poller):
    """The thread of the platform's service that puts clusters in force."""

    def __init__(
        self,
        source: Source,
        opens: Callable[[], Environment],
        say: Callable[[str], object] = log.warning,
        look_s: float = LOOK_S,
    ) -> None:
        """:param opens: opens an environment for this thread; called again after a failure."""
        self._publisher, self._opens = ClusterPublisher(source), opens
        self._environment: Environment | None = None
        self._say, self._said = say, frozenset[str]()
        failed = "The platform's clusters do not come into force, those in ZooKeeper stay"
        super().__init__(
            "clusters-publishing", self._publish, self._connect, lambda why: say(f"{failed}: {why}"), look_s
        )

    def close(self) -> None:
        super().close()
        if self._environment is not None:
            self._environment.close()

    def _connect(self) -> Store:
        self._environment = self._opens()
        return self._environment.store

    def _publish(self, _store: Store) -> None:
        assert self._environment is not None
        if changed := self._publisher.look(self._environment):
            log.info("the platform's entries for these clusters came into force: %s", ", ".join(changed))
        problems = frozenset(self._publisher.problems.values())
        for problem in sorted(problems - self._said):
            self._say(problem)
        self._said = problems
