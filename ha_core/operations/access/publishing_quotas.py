"""Publishes the platform's quotas: the platform's service writes them into ZooKeeper, where gateways read them.

Each pass compares the platform's quotas with those in ZooKeeper and writes the differences. It keeps no state of its
own, so after a crash any instance continues. Quotas from other sources stay, unless the platform has one for the same
entity; manual edits of published quotas are reverted by the next pass.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable

from ha_core.datacache.core.source import Source
from ha_core.datacache.poller import LOOK_S, Poller
from ha_core.model.quota import KINDS, Limits, QuotaEntity, check_entity, check_limits
from ha_core.operations.access.platform_entries import PlatformEntries
from ha_core.store.errors import OlderDatabaseError, OvertakenError
from ha_core.store.quota_nodes import path_of
from ha_core.store.quotas import AT_ONCE, FollowedQuotas, Publication, QuotasFound
from ha_core.store.store import Store

log = logging.getLogger(__name__)

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
                entity, other_entity = sorted((entity, other[0]), key=lambda one: len(one.user or ""), reverse=True)
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
        found: QuotasFound = self._followed.found
        wanted, self.problems = self._registered.wanted()
        changes: Changes = []
        for path, (entity, limits) in wanted.items():
            stored = found.readable.get(path)
            if stored is not None and not stored.published and stored.entity not in (None, entity) and not prune:
                self.problems[path] = (
                    f"the quota for {entity} is not in force: one for {stored.entity} has its name, and is not the "
                    "platform's; `switchyard client-quotas publish --prune` removes it"
                )
            elif (
                stored is None
                or path in found.unreadable
                or not stored.published
                or (stored.entity, stored.limits) != (entity, limits)
            ):
                changes.append((entity, limits))
        kept = wanted.keys() | self.problems.keys()
        changes += [
            (QuotaEntity(instance=stored.name) if stored.entity is None else stored.entity, {})
            for path, stored in found.readable.items()
            if path not in kept and (stored.published or prune)
        ]
        return changes


class PublishingQuotas(Poller):
    """The thread of the platform's service that publishes quotas."""

    def __init__(
        self,
        source: Source,
        connect: Callable[[], Store],
        say: Callable[[str], object] = log.warning,
        look_s: float = LOOK_S,
    ) -> None:
        self._publisher = QuotaPublisher(source)
        self._say, self._said = say, frozenset[str]()
        failed = "Quotas of the platform are not published, those in ZooKeeper stay in force"
        super().__init__("quotas-publishing", self._publish, connect, lambda why: say(f"{failed}: {why}"), look_s)

    def _publish(self, store: Store) -> None:
        changed = self._publisher.look(store)
        if changed:
            log.info("%d quotas were published", len(changed))
        problems = frozenset(self._publisher.problems.values())
        for problem in sorted(problems - self._said):
            self._say(problem)
        self._said = problems
