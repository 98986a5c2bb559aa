"""The mirrors of one cluster in another, with checks that they are unchanged before each change.

A look at two clusters takes a while, and its process may stall for an hour. So right before each request that changes
anything ZooKeeper's leader is asked whether the mirror still exists, no operation works on its topic or group, and no
user is routed to the group in the target; and facts about clusters may be some seconds old, not more. There remains a
process that stalls just between that question and its request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

from ha_core.kafka.admin import Admin
from ha_core.model import Mirror, SyncFinding, UnreadableDocumentError, View
from ha_core.model.mirror_job import OffsetKind
from ha_core.plan.mirror.syncing import homes
from ha_core.store.store import Store

FRESH_S = 0.5
"""Maximum age of the store's last answer."""
MAX_AGE_S = 10.0
"""Maximum age of facts about the clusters."""
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It counts the sleep of a machine as well."""


def now_s() -> float:
    """Seconds since some instant before this process began."""
    return time.clock_gettime(_CLOCK)


class SyncOvertakenError(Exception):
    """The facts have changed, or may have: nothing more is changed because of them."""


@dataclass(frozen=True, slots=True)
class SyncChange:
    """A change in the target, or in a dry run a due one."""

    what: str
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Synced:
    """One part of a pair: changes, and differences between target and source that remain."""

    source: str
    target: str
    part: Literal["topics", "groups"]
    at: str
    looked_at: int
    changes: tuple[SyncChange, ...] = ()
    findings: tuple[SyncFinding, ...] = ()
    renewed: int = 0
    """Number of documents that were written in the store."""
    kinds: Mapping[OffsetKind, int] = field(default_factory=dict)
    """Number of groups, by the kind of offsets that the target gets of them."""


@dataclass(frozen=True)
class _State:
    """The state that decides, at one moment."""

    view: View
    homes: Mapping[str, frozenset[str]]
    """group → clusters that its users are routed to."""
    locks: frozenset[str]
    asked_s: float

    @classmethod
    def read(cls, store: Store, before: _State | None = None) -> _State:
        asked_s = now_s()
        revision = store.confirm()
        locks = store.lock_keys()
        if before is not None and before.view.revision == revision:
            return replace(before, locks=locks, asked_s=asked_s)
        view = store.load(left_out=(Mirror,))  # an unreadable mirror is left alone, and must not stop the others
        return cls(view, homes(view, store.usage().values()), locks, asked_s)


@dataclass
class MirrorPair:
    """:ivar topics: the mirrors to look at; None: all.
    :ivar copies: the target's account here is the one that copies; else it may be another one.
    """

    store: Store
    source: Admin
    target: Admin
    at: str
    """When the look began; UTC, ISO 8601."""
    topics: frozenset[str] | None = None
    dry_run: bool = False
    copies: bool = False
    changes: list[SyncChange] = field(default_factory=list)
    findings: list[SyncFinding] = field(default_factory=list)
    _begun_s: float = field(default_factory=now_s)

    def __post_init__(self) -> None:
        self._state = _State.read(self.store)

    @property
    def view(self) -> View:
        return self._state.view

    @cached_property
    def mirrors(self) -> Mapping[str, Mirror]:
        """topic → its mirror, without topics that an operation works on."""
        return {mirror.topic: mirror for mirror in self._mirrors() if not self._hold(mirror)}

    @property
    def homes(self) -> Mapping[str, frozenset[str]]:
        """Group that gateways know clients of, or that is bound or was moved → clusters that its clients are led to."""
        return self._state.homes

    @property
    def links(self) -> Mapping[str, str]:
        """Topic → link id, for all mirrors from the one cluster to the other, whether they are looked at or not."""
        route = self.source.cluster.name, self.target.cluster.name
        mirrors = self.view.mirrors.values()
        return {mirror.topic: mirror.link for mirror in mirrors if (mirror.source, mirror.target) == route}

    @cached_property
    def held(self) -> Mapping[str, str]:
        """topic → why it is left alone."""
        return {mirror.topic: why for mirror in self._mirrors() if (why := self._hold(mirror))}

    def topics_unchanged(self, topics: Collection[str], fresh_s: float | None = None) -> Callable[[], None]:
        """Raises SyncOvertakenError if the mirrors of these topics have changed.

        :param fresh_s: maximum age of the store's last answer; None: `FRESH_S`.
        """
        links = {self.mirrors[topic].key: self.mirrors[topic].link for topic in topics}
        return partial(self._require, links, "", fresh_s)

    def is_free(self, topic: str, cluster: str) -> bool:
        """Whether the topic is one of `topics`, is not mirrored to the cluster, and no operation works on it."""
        ours = self.topics is None or topic in self.topics
        return ours and not self.is_worked_on(topic) and not self._stands(f"{topic}@{cluster}")

    def is_worked_on(self, topic: str) -> bool:
        return f"topic:{topic}" in self._state.locks

    def still_free(self, topics: Collection[str], cluster: str) -> Callable[[], None]:
        """Raises SyncOvertakenError if one of them is not `is_free` any more."""

        def require() -> None:
            self._renew()
            if taken := [topic for topic in topics if not self.is_free(topic, cluster)]:
                raise SyncOvertakenError(f"topic {taken[0]} is mirrored to {cluster} by now, or worked on")

        return require

    def group_unchanged(self, group: str, topics: Collection[str]) -> Callable[[], None]:
        """As `topics_unchanged`; raises too if an operation works on the group, or a user is routed to it in the
        target."""
        return partial(self._require, {self.mirrors[topic].key: self.mirrors[topic].link for topic in topics}, group)

    def group_hold(self, group: str) -> str:
        """Why the group is left alone, by the stored state; empty: it may be changed."""
        target, document = self.target.cluster.name, self.view.groups.get(group)
        if f"group:{group}" in self._state.locks or (document is not None and document.fence is not None):
            return "an operation works on it"
        if document is not None and document.cluster == target:
            return f"it was moved to {target}: its commits are there"
        if target in self._state.homes.get(group, ()):
            return f"its coordinator is in {target}, by the bindings of its users"
        return ""

    def add_finding(self, what: str, about: str, reason: str, stop: bool = False) -> None:
        self.findings.append(SyncFinding.model_validate({"what": what, "about": about, "reason": reason, "stop": stop}))

    def changed(self, what: str, about: str, text: str) -> None:
        self.changes.append(SyncChange(what, about, text))

    def synced(
        self,
        part: Literal["topics", "groups"],
        looked_at: int,
        renewed: int = 0,
        kinds: Mapping[OffsetKind, int] | None = None,
    ) -> Synced:
        names = self.source.cluster.name, self.target.cluster.name
        found = tuple(self.changes), tuple(self.findings)
        return Synced(*names, part, self.at, looked_at, *found, renewed, kinds or {})

    def require_fresh(self) -> None:
        """:raises SyncOvertakenError: the facts are too old."""
        if now_s() - self._begun_s > MAX_AGE_S:
            raise SyncOvertakenError(f"what was seen of {self.source.cluster.name} is more than {MAX_AGE_S:g} s old")

    def restart_age(self) -> None:
        """The following facts are read now."""
        self._begun_s = now_s()

    def _mirrors(self) -> Iterator[Mirror]:
        for _, mirror in sorted(self.view.mirrors.items()):
            ours = (mirror.source, mirror.target) == (self.source.cluster.name, self.target.cluster.name)
            if ours and (self.topics is None or mirror.topic in self.topics):
                yield mirror

    def _hold(self, mirror: Mirror) -> str:
        if mirror.held is not None:
            return f"operation {mirror.held} has taken the copy of {mirror.topic} for itself"
        return f"an operation works on topic {mirror.topic}" if f"topic:{mirror.topic}" in self._state.locks else ""

    def _stands(self, key: str) -> bool:
        """Whether there is such a mirror, even an unreadable one, which the view leaves out."""
        try:
            return key in self.view.mirrors or self.store.read(Mirror, key) is not None
        except UnreadableDocumentError:
            return True

    def _renew(self, fresh_s: float | None = None) -> None:
        """:raises SyncOvertakenError: the facts about the clusters are too old."""
        self.require_fresh()
        if now_s() - self._state.asked_s > (FRESH_S if fresh_s is None else fresh_s):
            self._state = _State.read(self.store, self._state)

    def _require(self, links: Mapping[str, str], group: str, fresh_s: float | None = None) -> None:
        self._renew(fresh_s)
        for key, link in links.items():
            mirror = self.view.mirrors.get(key)
            if mirror is None or mirror.link != link:
                raise SyncOvertakenError(f"mirror {key} has ended")
            if why := self._hold(mirror):
                raise SyncOvertakenError(why)
        if group and (why := self.group_hold(group)):
            raise SyncOvertakenError(f"group {group}: {why}")
