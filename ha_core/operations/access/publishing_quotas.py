"""The platform's quotas put in force: written into ZooKeeper, where gateways find them, by whoever serves the platform.

What is written follows from what the platform has and what stands there, and from nothing that a process remembers: who
was killed in the middle is followed by the next one, or by himself, and goes on with what is different still. Quotas
of others stay, unless the platform has the same; what is changed past the platform is set right at the next look.
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
from ha_core.store.quota_publication import AT_ONCE, Publication
from ha_core.store.quotas import FollowedQuotas, QuotasFound
from ha_core.store.store import Store

log = logging.getLogger(__name__)

_TRIES = 10
Changes = list[tuple[QuotaEntity, Limits]]
"""Quotas as they are to be; without limits: gone."""


class RegisteredQuotas(PlatformEntries):
    """The quotas that the platform has."""

    def wanted(self) -> tuple[dict[str, tuple[QuotaEntity, Limits]], dict[str, str]]:
        """Path → what is to lie there; and path → why what the platform has cannot: that stays as it is."""
        wanted: dict[str, tuple[QuotaEntity, Limits]] = {}
        problems: dict[str, str] = {}
        for row in self.rows.values():
            value = row.value or {}
            entity = QuotaEntity(value.get("user"), value.get("instance"), value.get("topic"))
            try:
                check_entity(entity)
                path = path_of(entity)
            except (ValueError, TypeError) as error:
                problems[str(entity)] = f"the quota for {entity} cannot be: {error}"
                continue
            limits = {kind: value[key] for key, kind in KINDS.items() if value.get(key) is not None}
            try:
                check_limits(entity, limits)
            except (ValueError, TypeError) as error:
                problems[path] = f"the quota for {entity} cannot be: {error}"
                continue
            other = wanted.get(path)
            if other is not None:
                # Users and topics have dots: whom a name means without more is the user with the longest one.
                entity, other_entity = sorted((entity, other[0]), key=lambda one: len(one.user or ""), reverse=True)
                if entity == other[0]:
                    limits = dict(other[1])
                problems[f"{path} {other_entity}"] = (
                    f"the quota for {other_entity} is not in force: with its dots it has the name of that for "
                    f"{entity}, whose user has the longer name; limit the user instead"
                )
            wanted[path] = entity, limits
        return wanted, problems


class QuotaPublisher:
    """Not thread-safe.

    :ivar problems: of which of the platform's quotas something else is in force, and why.
    """

    def __init__(self, source: Source, who: str = "") -> None:
        self._registered = RegisteredQuotas(source)
        self._who = who or f"{socket.gethostname()} process {os.getpid()}"
        self._store: Store | None = None
        self._followed: FollowedQuotas | None = None
        self._seen: Publication | None = None
        self.problems: dict[str, str] = {}

    def look(self, store: Store) -> Changes:
        """Publish what is different, if anything is. → what was changed.

        :raises OlderDatabaseError: the platform's database is an older one than what was published.
        """
        read, moved = self._look(store)
        if not moved and self._seen == read:
            return []
        return self._publish(store, read, prune=False, older=False)

    def once(self, store: Store, prune: bool) -> Changes:
        """The same because somebody wants it, also of an older database.

        :param prune: take those away as well that are none of the platform's.
        """
        read, _ = self._look(store)
        return self._publish(store, read, prune, older=True)

    def plan(self, store: Store, prune: bool) -> Changes:
        """What `once` would change."""
        self._look(store)
        return self._different(prune)

    def _look(self, store: Store) -> tuple[Publication, bool]:
        if self._followed is None or store is not self._store:
            self._store, self._followed, self._seen = store, store.follow_quotas(), None
        # First what was published, then what the platform has: who publishes what is newer refuses what follows.
        read = store.publication()
        newer = self._registered.read()
        elsewhere = self._followed.read(lambda: None, anew=self._seen is None)
        return read, newer or elsewhere

    def _require_newer(self, read: Publication) -> None:
        if self._registered.through_us < read.through_us:
            raise OlderDatabaseError(
                f"quotas were published as they were at {read.through_us}, by {read.by}, and the newest change in this "
                f"database is of {self._registered.through_us}: is it the right one? If it was restored, run "
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
        raise OvertakenError(f"quotas were changed by others {_TRIES} times while they were published: repeat it")

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
                    "platform's; `switchyard client-quotas publish --prune` takes it away"
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
    """The thread that does it, as long as the platform is served."""

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
