"""The platform's service publishes the platform's quotas and clusters: it writes them into ZooKeeper for gateways.

Quotas: each pass compares the platform's quotas with those in ZooKeeper and writes the differences. It keeps no state
of its own, so after a crash any instance continues. Quotas from other sources stay, unless the platform has one for the
same entity; manual edits of published quotas are reverted by the next pass.

Clusters are registered as `switchyard clusters add` does. Each change is put in force once: the cluster's document
keeps its time, so a restart or a second service repeats nothing, and changes by an operator stay until the platform has
a newer one. The service asks a cluster first: a change does not come into force if the cluster does not answer, or is
another cluster.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterable

from ha_core.datacache.core.source import Row, Source
from ha_core.datacache.poller import LOOK_S, Poller
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Cluster
from ha_core.model.cluster import NO_PROFILE
from ha_core.model.quota import KINDS, Limits, QuotaEntity, check_entity, check_limits
from ha_core.operations.clusters.registered import add_cluster, require_alive, require_same
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError
from ha_core.store.errors import ConflictError, LockedError, OlderDatabaseError, OvertakenError
from ha_core.store.quota_nodes import path_of
from ha_core.store.quotas import AT_ONCE, FollowedQuotas, Publication, QuotasFound
from ha_core.store.store import Store

log = logging.getLogger(__name__)

_PAGE = 5000


class PlatformEntries:
    """Not thread-safe.

    :ivar rows: by key, the entries that exist.
    :ivar through_us: time of the newest change that was read.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.rows: dict[str, Row] = {}
        self.through_us = 0

    def read(self) -> bool:
        """Read all new changes; False if there were none. Errors of the source are raised."""
        before = self.through_us
        while True:
            changes = self._source.changes(self.through_us, _PAGE)
            if changes.through_us < self.through_us:
                # Perhaps restored from a backup: everything read before is invalid.
                self.rows, self.through_us = {}, 0
                continue
            for row in changes.rows:
                if row.value is None:
                    self.rows.pop(row.key, None)
                else:
                    self.rows[row.key] = row
            self.through_us = changes.through_us
            if len(changes.rows) < _PAGE:
                return self.through_us != before


_TRIES = 10
Changes = list[tuple[QuotaEntity, Limits]]
"""Wanted quotas; without limits: to be removed."""


class RegisteredQuotas(PlatformEntries):
    """The quotas that the platform has."""

    def wanted(self) -> tuple[dict[str, tuple[QuotaEntity, Limits]], dict[str, str]]:
        """Path → wanted quota; and path → why the platform's quota cannot be published: the stored one stays."""
        wanted: dict[str, tuple[QuotaEntity, Limits]] = {}
        problems: dict[str, str] = {}
        for row in self.rows.values():
            value = row.value or {}
            entity = QuotaEntity(value.get("user"), value.get("instance"), value.get("topic"))
            try:
                check_entity(entity)
                path = path_of(entity)
            except (ValueError, TypeError) as error:
                problems[str(entity)] = f"the quota for {entity} is not valid: {error}"
                continue
            limits = {kind: value[key] for key, kind in KINDS.items() if value.get(key) is not None}
            try:
                check_limits(entity, limits)
            except (ValueError, TypeError) as error:
                problems[path] = f"the quota for {entity} is not valid: {error}"
                continue
            other = wanted.get(path)
            if other is not None:
                # Users and topics have dots: an ambiguous name means the user with the longest name.
                entity, other_entity = sorted(
                    (entity, other[0]), key=lambda quota_entity: len(quota_entity.user or ""), reverse=True
                )
                if entity == other[0]:
                    limits = dict(other[1])
                problems[f"{path} {other_entity}"] = (
                    f"the quota for {other_entity} is not in force: with its dots it has the same name as that for "
                    f"{entity}, whose user has the longer name; limit the user instead"
                )
            wanted[path] = entity, limits
        return wanted, problems


class QuotaPublisher:
    """Not thread-safe.

    :ivar problems: why a quota of the platform is not in force.
    """

    def __init__(self, source: Source, who: str = "") -> None:
        self._registered = RegisteredQuotas(source)
        self._who = who or f"{socket.gethostname()} process {os.getpid()}"
        self._store: Store | None = None
        self._followed: FollowedQuotas | None = None
        self._seen: Publication | None = None
        self.problems: dict[str, str] = {}

    def look(self, store: Store) -> Changes:
        """Publish the differences, if there are any. → the changes.

        :raises OlderDatabaseError: the platform's database is older than the published quotas.
        """
        read, moved = self._look(store)
        if not moved and self._seen == read:
            return []
        return self._publish(store, read, prune=False, older=False)

    def once(self, store: Store, prune: bool) -> Changes:
        """Publish on an operator's request, also from an older database.

        :param prune: remove quotas that are not the platform's, too.
        """
        read, _ = self._look(store)
        return self._publish(store, read, prune, older=True)

    def plan(self, store: Store, prune: bool) -> Changes:
        """The changes that `once` would make."""
        self._look(store)
        return self._different(prune)

    def _look(self, store: Store) -> tuple[Publication, bool]:
        if self._followed is None or store is not self._store:
            self._store, self._followed, self._seen = store, store.follow_quotas(), None
        # The publication is read before the platform: a newer publication in between makes the following write fail.
        read = store.publication()
        newer = self._registered.read()
        elsewhere = self._followed.read(lambda: None, anew=self._seen is None)
        return read, newer or elsewhere

    def _require_newer(self, read: Publication) -> None:
        if self._registered.through_us < read.through_us:
            raise OlderDatabaseError(
                f"quotas were published from the state at {read.through_us}, by {read.by}, and the newest change in "
                f"this database is of {self._registered.through_us}: is it the right one? If it was restored, run "
                "`switchyard client-quotas publish`"
            )

    def _publish(self, store: Store, read: Publication, prune: bool, older: bool) -> Changes:
        assert self._followed is not None
        changed: Changes = []
        for _ in range(_TRIES):
            if not older:
                self._require_newer(read)
            left = self._different(prune)
            if not left and read.through_us == self._registered.through_us:
                self._seen = read
                return changed
            try:
                while left or read.through_us != self._registered.through_us:
                    some, left = left[:AT_ONCE], left[AT_ONCE:]
                    read = store.publish(read, self._registered.through_us, self._who, some)
                    changed += some
            except OvertakenError:
                read, _ = self._look(store)
                continue
            self._followed.read(lambda: None, anew=False)
        raise OvertakenError(
            f"quotas were changed {_TRIES} times by another process while they were published: repeat it"
        )

    def _different(self, prune: bool) -> Changes:
        assert self._followed is not None
        quotas: QuotasFound = self._followed.found
        wanted, self.problems = self._registered.wanted()
        changes: Changes = []
        for path, (entity, limits) in wanted.items():
            stored = quotas.readable.get(path)
            if stored is not None and not stored.published and stored.entity not in (None, entity) and not prune:
                self.problems[path] = (
                    f"the quota for {entity} is not in force: one for {stored.entity} has its name, and is not the "
                    "platform's; `switchyard client-quotas publish --prune` removes it"
                )
            elif (
                stored is None
                or path in quotas.unreadable
                or not stored.published
                or (stored.entity, stored.limits) != (entity, limits)
            ):
                changes.append((entity, limits))
        kept = wanted.keys() | self.problems.keys()
        changes += [
            (QuotaEntity(instance=stored.name) if stored.entity is None else stored.entity, {})
            for path, stored in quotas.readable.items()
            if path not in kept and (stored.published or prune)
        ]
        return changes


class _Publishing(Poller):
    """A thread of the platform's service, which says each problem once."""

    def __init__(
        self,
        name: str,
        publish: Callable[[Store], None],
        connect: Callable[[], Store],
        failed: str,
        say: Callable[[str], object],
        look_s: float,
    ) -> None:
        self._say, self._said = say, frozenset[str]()
        super().__init__(name, publish, connect, lambda why: say(f"{failed}: {why}"), look_s)

    def _say_new(self, problems: Iterable[str]) -> None:
        now = frozenset(problems)
        for problem in sorted(now - self._said):
            self._say(problem)
        self._said = now


class PublishingQuotas(_Publishing):
    """The thread of the platform's service that publishes quotas."""

    def __init__(
        self,
        source: Source,
        connect: Callable[[], Store],
        say: Callable[[str], object] = log.warning,
        look_s: float = LOOK_S,
    ) -> None:
        self._publisher = QuotaPublisher(source)
        failed = "Quotas of the platform are not published, those in ZooKeeper stay in force"
        super().__init__("quotas-publishing", self._publish, connect, failed, say, look_s)

    def _publish(self, store: Store) -> None:
        changed = self._publisher.look(store)
        if changed:
            log.info("%d quotas were published", len(changed))
        self._say_new(self._publisher.problems.values())


CLUSTERS_LOOK_S = 2.0
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
        clusters = environment.store.clusters()
        rows = {str((row.value or {}).get("name")): row for row in self._registered.rows.values()}
        changed = [name for name, row in sorted(rows.items()) if self._in_turn(environment, row, clusters.get(name))]
        gone = (
            {name for name, cluster in clusters.items() if cluster.platform_us and name not in rows}
            if rows
            else set[str]()
        )
        for name in gone:
            way = f"`switchyard clusters remove {name}` removes it when nothing refers to it"
            self.problems[name] = f"cluster {name} was deleted on the platform, and stays registered: {way}"
        self.problems = {name: why for name, why in self.problems.items() if name in rows.keys() | gone}
        return changed

    def _in_turn(self, environment: Environment, row: Row, cluster: Cluster | None) -> bool:
        name = str((row.value or {}).get("name"))
        if cluster is not None and (cluster.platform_us or 0) >= row.changed_us:
            self.problems.pop(name, None)
            return False
        tried_us, at = self._tried.get(name, (0, 0.0))
        if tried_us == row.changed_us and environment.monotonic() - at < AGAIN_S:
            return False
        self._tried[name] = row.changed_us, environment.monotonic()
        try:
            put_in_force(environment, row, cluster)
        except (MoveError, KafkaAdminError, LockedError, ConflictError) as error:
            self.problems[name] = f"the platform's entry for cluster {name} is not in force: {error}"
            return False
        self.problems.pop(name, None)
        return True


def put_in_force(environment: Environment, row: Row, cluster: Cluster | None) -> None:
    """:raises RefusedError: it does not answer, or is another cluster than the one registered under its name."""
    value = row.value or {}
    name, bootstrap = str(value["name"]), str(value["bootstrap"])
    security = value.get("security") or (NO_PROFILE if cluster is None else cluster.security)
    if cluster is None or (cluster.bootstrap, cluster.security) != (bootstrap, security):
        require_alive(environment, name, bootstrap, security)
        if cluster is not None:
            require_same(environment, cluster, bootstrap, security)
    add_cluster(
        environment,
        name,
        bootstrap,
        security,
        reason="changed on the platform",
        zone=value.get("zone") or None,
        platform_us=row.changed_us,
    )


class PublishingClusters(_Publishing):
    """The thread of the platform's service that puts clusters in force."""

    def __init__(
        self,
        source: Source,
        opens: Callable[[], Environment],
        say: Callable[[str], object] = log.warning,
        look_s: float = CLUSTERS_LOOK_S,
    ) -> None:
        """:param opens: opens an environment for this thread; called again after a failure."""
        self._publisher, self._opens = ClusterPublisher(source), opens
        self._environment: Environment | None = None
        failed = "The platform's clusters do not come into force, those in ZooKeeper stay"
        super().__init__("clusters-publishing", self._publish, self._connect, failed, say, look_s)

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
        self._say_new(self._publisher.problems.values())
