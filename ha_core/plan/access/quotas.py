"""Which quota counts for a client: of those that fit the most specific one alone, as a broker decides it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from ha_core.model.quota import DEFAULT, MAX_NAME, Limits, QuotaEntity, QuotaKind

_OWN = object()
_LEVELS = (
    (_OWN, _OWN),
    (_OWN, DEFAULT),
    (_OWN, None),
    (DEFAULT, _OWN),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, _OWN),
    (None, DEFAULT),
)
"""Kafka's order (KIP-55): user and instance of each level."""


class QuotaScope(NamedTuple):
    """Whose use is counted together. A default counts for each user or instance by itself."""

    kind: QuotaKind
    user: str | None
    instance: str | None
    topic: str | None = None

    @property
    def entity(self) -> QuotaEntity:
        return QuotaEntity(self.user, self.instance, self.topic)

    @property
    def key(self) -> str:
        """The same as one text, among gateways."""
        return json.dumps([self.kind.label, self.user, self.instance, self.topic], separators=(",", ":"))


class AppliedQuota(NamedTuple):
    scope: QuotaScope
    bound: float
    """Bytes a second, or percents of one thread's time."""


class Quotas:
    """All that are in force. Never changed."""

    def __init__(self, limits: Mapping[QuotaEntity, Limits]) -> None:
        self.limits = limits
        self._topics: dict[str, dict[str, Limits]] = {}
        for entity, of_topic in limits.items():
            if entity.topic is not None and entity.user is not None:
                self._topics.setdefault(entity.user, {})[entity.topic] = of_topic

    def __len__(self) -> int:
        return len(self.limits)

    def of(self, kind: QuotaKind, user: str, instance: str) -> AppliedQuota | None:
        """What counts for what this instance of a user does, but in topics that have a quota of their own."""
        for of_user, of_instance in _LEVELS:
            entity = QuotaEntity(
                user if of_user is _OWN else DEFAULT if of_user is DEFAULT else None,
                instance if of_instance is _OWN else DEFAULT if of_instance is DEFAULT else None,
            )
            bound = self.limits.get(entity, _NONE).get(kind)
            if bound is not None:
                # A client makes up its id, of 32 kB if it likes, and a default has a scope for each. No quota is for
                # a name that long: those that begin alike count together.
                id_ = None if of_instance is None else instance[:MAX_NAME]
                scope = QuotaScope(kind, None if of_user is None else user, id_)
                return AppliedQuota(scope, bound)
        return None

    def of_topics(self, kind: QuotaKind, user: str) -> dict[str, AppliedQuota]:
        """The topics in which what the user does counts for a quota of its own, and for no other."""
        return {
            topic: AppliedQuota(QuotaScope(kind, user, None, topic), limits[kind])
            for topic, limits in self._topics.get(user, {}).items()
            if kind in limits
        }


_NONE: Limits = {}
