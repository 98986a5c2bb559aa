"""Picks a client's quota as brokers do: only the most specific one that matches applies."""

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
"""User and instance of each level, in Kafka's order (KIP-55)."""


class QuotaScope(NamedTuple):
    """Clients whose use is counted together. A default quota counts each user or instance separately."""

    kind: QuotaKind
    user: str | None
    instance: str | None
    topic: str | None = None

    @property
    def entity(self) -> QuotaEntity:
        return QuotaEntity(self.user, self.instance, self.topic)

    @property
    def key(self) -> str:
        """The scope as one text, which gateways exchange."""
        return json.dumps([self.kind.label, self.user, self.instance, self.topic], separators=(",", ":"))


class AppliedQuota(NamedTuple):
    scope: QuotaScope
    bound: float
    """Bytes per second, or percent of one thread's time."""


class Quotas:
    """All quotas in force; immutable."""

    def __init__(self, limits: Mapping[QuotaEntity, Limits]) -> None:
        self.limits = limits
        self._topics: dict[str, dict[str, Limits]] = {}
        for entity, of_topic in limits.items():
            if entity.topic is not None and entity.user is not None:
                self._topics.setdefault(entity.user, {})[entity.topic] = of_topic

    def __len__(self) -> int:
        return len(self.limits)

    def of(self, kind: QuotaKind, user: str, instance: str) -> AppliedQuota | None:
        """The quota of a user's instance, except in topics with a quota of their own."""
        for of_user, of_instance in _LEVELS:
            entity = QuotaEntity(
                user if of_user is _OWN else DEFAULT if of_user is DEFAULT else None,
                instance if of_instance is _OWN else DEFAULT if of_instance is DEFAULT else None,
            )
            bound = self.limits.get(entity, _NONE).get(kind)
            if bound is not None:
                # Clients choose their ids, of up to 32 kB, and a default quota has a scope for each. No quota names
                # one that long, so ids with the same beginning share a scope.
                id_ = None if of_instance is None else instance[:MAX_NAME]
                scope = QuotaScope(kind, None if of_user is None else user, id_)
                return AppliedQuota(scope, bound)
        return None

    def of_topics(self, kind: QuotaKind, user: str) -> dict[str, AppliedQuota]:
        """Topics in which the user has a separate quota, which replaces all others there."""
        return {
            topic: AppliedQuota(QuotaScope(kind, user, None, topic), limits[kind])
            for topic, limits in self._topics.get(user, {}).items()
            if kind in limits
        }


_NONE: Limits = {}
