"""Follows the platform: each kind by a cache, agreed with all gateways, whose states are put in force.

A state is evaluated in the cache's own thread; the event loop gets the result. The last state stays in force while the
platform, its database or ZooKeeper is away, and, where it is kept in a folder, after a restart.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from urllib.parse import quote

from gateway.config.platform import PlatformSection
from gateway.config.settings_file import readable
from gateway.follow.platform.accounts import PlatformAccounts
from gateway.follow.platform.line import PlatformLine, PlatformSource
from gateway.follow.platform.rights import PlatformRights
from gateway.process.state_condition import StateCondition
from gateway.session.discovery_rates import DiscoverySettings
from ha_core.datacache.cache import DataCache
from ha_core.datacache.cache_file import CacheFile
from ha_core.datacache.core.uncommitted import Content
from ha_core.datacache.state import CacheState
from ha_core.plan.access.rights import Rights
from ha_core.store.tree import Tree

_log = logging.getLogger(__name__)


class FollowingPlatform:
    """
    :ivar line: the connection for changes by clients.
    :ivar accounts: None: users come from elsewhere.
    :ivar rights: None: rules come from elsewhere, or are off.
    """

    def __init__(
        self,
        platform: PlatformSection,
        gateway: str,
        tree: Tree,
        loop: asyncio.AbstractEventLoop,
        on_rights: Callable[[Rights], None],
        on_gone: Callable[[frozenset[str]], None],
        on_settings: Callable[[DiscoverySettings], None],
    ) -> None:
        """
        :param on_rights: called with the rights of each new state, on the event loop.
        :param on_gone: called there with users who can no longer log in by a mechanism by which they could before.
        :param on_settings: called there with the settings of each new state.
        """
        self.url = platform.url
        self.line = PlatformLine(platform)
        self.accounts = PlatformAccounts() if "users" in platform.follows else None
        self._platform, self._gateway, self._tree, self._loop = platform, gateway, tree, loop
        self._on_rights, self._on_gone, self._on_settings = on_rights, on_gone, on_settings
        self._rights = PlatformRights() if "rules" in platform.follows else None
        self._guard = threading.Lock()
        """Guards the rights, which are made of two caches."""
        self._states_us: dict[str, int] = {}
        """Kind → time of its state."""
        self._states = StateCondition()
        self._ready = asyncio.Event()
        self._caches: dict[str, DataCache] = {}

    @property
    def rights(self) -> Rights | None:
        return None if self._rights is None else self._rights.rights

    @property
    def has_quotas(self) -> bool:
        """Whether clients' changes of quotas are made on the platform, which publishes quotas in ZooKeeper."""
        return "quotas" in self._platform.follows

    def knows(self, user: str) -> bool:
        """Thread-safe."""
        cache = self._caches.get("users")
        return cache is not None and cache.main is not None and user in cache.main.rows

    @property
    def unreadable(self) -> int:
        """Number of users and rules that cannot be read."""
        return 0 if self._rights is None else len(self._rights.unreadable)

    @property
    def waits_for(self) -> list[str]:
        """Kinds without a state so far."""
        return [kind for kind in self._platform.caches if kind not in self._states_us]

    @property
    def why(self) -> str:
        """The kinds that it waits for, with an error, for people; empty: none."""
        missing = self.waits_for
        if not missing:
            return ""
        errors = {cache.state().error for kind, cache in dict(self._caches).items() if kind in missing} - {""}
        return ": ".join([f"{', '.join(missing)} of the platform were never read", *sorted(errors)[:1]])

    def states(self) -> list[CacheState]:
        return [cache.state() for cache in list(self._caches.values())]

    def begin(self) -> None:
        """Takes long where the folder has much content.

        :raises NodeIdTakenError: another live gateway has this one's id.
        :raises StoreError: ZooKeeper cannot be reached.
        """
        for kind in self._platform.caches:
            cache = DataCache(
                kind,
                self._gateway,
                PlatformSource(self._platform, kind),
                self._tree,
                self._platform.settings,
                on_main=_TAKES[kind](self),
                file=self._file(kind),
            )
            self._caches[kind] = cache
            cache.start()
        if not self._platform.caches:
            self._loop.call_soon_threadsafe(self._ready.set)

    async def ready(self) -> None:
        """Waits until there is a state of each kind."""
        await self._ready.wait()

    async def in_force(self, kind: str, changed_us: int, max_s: float) -> None:
        """Waits until a change is in force, at most `max_s` seconds. Reading it here makes all gateways read it."""
        cache = self._caches.get(kind)
        if cache is None:
            return
        cache.read_now()
        await self._states.until(lambda: self._states_us.get(kind, 0) >= changed_us, max_s)

    def close(self) -> None:
        for cache in list(self._caches.values()):
            cache.close()

    def _file(self, kind: str) -> CacheFile | None:
        folder = self._platform.kept_in
        if folder is None:
            return None
        return CacheFile(folder / f"{quote(self._gateway, '')}.{kind}", f"{self._platform.url} {kind}")

    def _users(self, content: Content) -> None:
        with self._guard:
            on_gone = frozenset[str]() if self.accounts is None else self.accounts.follow(content)
            rights = None if self._rights is None else self._rights.follow_users(content)
        self._put_in_force("users", content, rights, on_gone)

    def _rules(self, content: Content) -> None:
        assert self._rights is not None
        with self._guard:
            rights = self._rights.follow_rules(content)
        self._put_in_force("rules", content, rights)

    def _settings(self, content: Content) -> None:
        self._put_in_force("settings", content, said=settings(content))

    def _put_in_force(
        self,
        kind: str,
        content: Content,
        rights: Rights | None = None,
        on_gone: frozenset[str] = frozenset(),
        said: DiscoverySettings | None = None,
    ) -> None:
        _log.info("platform: %d %s, as they were at %d, are in force", len(content.rows), kind, content.at_us)

        def on_loop() -> None:
            self._states_us[kind] = content.at_us
            if rights is not None:
                # The current rights: the callback of a newer state may have run before this one.
                self._on_rights(self._rights.rights if self._rights is not None else rights)
            if on_gone:
                self._on_gone(on_gone)
            if said is not None:
                self._on_settings(said)
            if not self.waits_for:
                self._ready.set()
            self._states.another()

        self._loop.call_soon_threadsafe(on_loop)


_Taker = Callable[[FollowingPlatform], Callable[[Content], None]]
_TAKES: Mapping[str, _Taker] = {
    "users": lambda following: following._users,
    "rules": lambda following: following._rules,
    "settings": lambda following: following._settings,
}
"""Kind → handler of its states. Quotas have none: the platform publishes them in ZooKeeper."""


def settings(content: Content) -> DiscoverySettings:
    """Settings of gateways from the platform. Unreadable ones are left out: their defaults hold."""
    by_type: dict[str, dict[str, int]] = {}
    for row in content.rows.all():
        fields = row.value or {}
        kind, name, value = fields.get("type"), fields.get("name"), fields.get("value")
        if isinstance(kind, str) and isinstance(name, str) and isinstance(value, int) and value > 0:
            by_type.setdefault(kind, {})[name] = value
    return readable(by_type)
