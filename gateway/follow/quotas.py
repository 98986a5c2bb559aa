"""Follows the quotas in ZooKeeper, changes them for clients, and reports throttling to the audit log.

While ZooKeeper is away the quotas that were read last stay in force. Unreadable ones change nothing: the log says why.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gateway.composed.handlers import OK, ChangeQuotas, QuotaChange, failed
from gateway.config import Config
from gateway.process.audit import AuditLog
from gateway.process.state_condition import StateCondition
from gateway.quotas.charges import Charge, Meters
from gateway.runtime import clock
from gateway.session.snapshot import Snapshot
from ha_core.model import UnreadableDocumentError
from ha_core.model.quota import Limits, QuotaEntity, QuotaKind, named
from ha_core.plan.access.quotas import Quotas, QuotaScope
from ha_core.store.errors import QuotaNameTakenError, QuotaPublishedError, StoreError
from ha_core.store.quotas import QuotasFound, QuotaWatcher
from ha_core.store.store import Store
from ha_core.wire.codes import ErrorCode

_log = logging.getLogger(__name__)

LOOK_S = 0.5
NAMES_EVERY = 10
"""Looks between two resolutions of names, since more users may be known by then."""
FORGET_EVERY = 60
CALM_S = 2.0
"""A client that was not made to wait for so long is no longer throttled."""


class KnownUsers:
    """Users that have an account, a binding or a rule. Thread-safe."""

    def __init__(
        self, config: Config, snapshot: Callable[[], Snapshot], on_platform: Callable[[str], bool] = lambda user: False
    ) -> None:
        """:param on_platform: whether the platform has a user of that name."""
        self._accounts, self._snapshot, self._on_platform = config.authentication.users, snapshot, on_platform

    def __contains__(self, user: object) -> bool:
        snapshot = self._snapshot()
        return isinstance(user, str) and (
            user in self._accounts
            or self._on_platform(user)
            or user in snapshot.view.bindings
            or (snapshot.rights is not None and snapshot.rights.names(user))
        )


class FollowingQuotas:
    """:ivar unreadable: path → why a quota's newest value is not in force."""

    def __init__(
        self,
        store: Store,
        users: Container[str],
        meters: Meters,
        audit: AuditLog,
        on_change: Callable[[Quotas | None], None],
    ) -> None:
        """:param users: the known users; used in any thread.
        :param on_change: called with the quotas, on the event loop; None: there are none.
        """
        self.users = users
        self._store, self._meters, self._audit, self._on_change = store, meters, audit, on_change
        self._loop = asyncio.get_running_loop()
        self._watcher: QuotaWatcher | None = None
        self._found = QuotasFound()
        self._limits: dict[QuotaEntity, Limits] = {}
        self._states = StateCondition()
        self._resolving = threading.Lock()
        self._throttled: dict[QuotaScope, Charge] = {}
        self._known = asyncio.Event()
        self.unreadable: dict[str, str] = {}

    def begin(self) -> None:
        self._watcher = self._store.watch_quotas(self._read)

    async def known(self, max_s: float) -> None:
        """Waits until the quotas were read, at most `max_s` seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._known.wait(), max_s)

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()

    async def keep(self) -> None:
        """Looks again and again; never returns."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_S)
            looks += 1
            self._tell_audit(clock.now())
            if looks % NAMES_EVERY == 0 and any(quota.entity is None for quota in self._found.readable.values()):
                await asyncio.to_thread(self._resolve)
            if looks % FORGET_EVERY == 0:
                self._meters.forget_idle(clock.now())

    def change(self, wanted: ChangeQuotas) -> list[dict[str, Any]]:
        """Writes to ZooKeeper and returns the result of each change; called in a thread."""
        if wanted.validate_only:
            return [OK for _ in wanted.changes]
        return [self._change_one(entity, change) for entity, change in wanted.changes]

    def _change_one(self, entity: QuotaEntity, change: Any) -> dict[str, Any]:
        try:
            self._store.change_quota(entity, change)
        except (ValueError, QuotaNameTakenError, QuotaPublishedError, UnreadableDocumentError) as error:
            return failed(ErrorCode.INVALID_REQUEST, str(error))
        except StoreError as error:
            return failed(ErrorCode.REQUEST_TIMED_OUT, str(error))
        return OK

    async def in_force(self, changes: Sequence[QuotaChange], max_s: float) -> None:
        """Waits until the changes are in force, at most `max_s` seconds."""
        await self._states.until(
            lambda: all(_stands(self._limits.get(entity, {}), change) for entity, change in changes), max_s
        )

    # -- in the follower's thread ------------------------------------------------------------------------------------

    def _read(self, quotas: QuotasFound) -> None:
        self._found = quotas
        for path, why in quotas.unreadable.items():
            if self.unreadable.get(path) != why:
                _log.warning("a quota's newest value is not in force: %s", why)
        self.unreadable = dict(quotas.unreadable)
        self._resolve()
        self._loop.call_soon_threadsafe(self._known.set)

    def _resolve(self) -> None:
        with self._resolving:
            limits: dict[QuotaEntity, Limits] = {}
            for stored in tuple(self._found.readable.values()):
                entity = named(stored.name, self.users) if stored.entity is None else stored.entity
                limits[entity] = stored.limits
            if limits != self._limits:
                self._limits = limits
                _log.info("%d quotas are in force", len(limits))
                self._loop.call_soon_threadsafe(self._put_in_force, Quotas(limits) if limits else None)

    # -- on the event loop --------------------------------------------------------------------------------------------

    def _put_in_force(self, quotas: Quotas | None) -> None:
        self._on_change(quotas)
        self._states.another()

    def _tell_audit(self, now: float) -> None:
        for scope, charge in self._meters.throttled.items():
            if scope not in self._throttled:
                self._audit.throttled(str(scope.entity), scope.kind.label, charge.bound, True, now)
            self._throttled[scope] = charge
        self._meters.throttled.clear()
        for scope, charge in tuple(self._throttled.items()):
            if charge.meter.throttled_until + CALM_S < now:
                del self._throttled[scope]
                self._audit.throttled(str(scope.entity), scope.kind.label, charge.bound, False, now)

    @property
    def throttled(self) -> int:
        """Number of users, topics and instances that wait, or did a moment ago."""
        return len(self._throttled)


def _stands(limits: Limits, change: Mapping[QuotaKind, float | None]) -> bool:
    return all(limits.get(kind) == value for kind, value in change.items())
