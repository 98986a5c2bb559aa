"""Quotas: entities, limits, their names, and the use that each gateway reports."""

import math
from collections.abc import Container, Mapping
from enum import Enum
from typing import NamedTuple

from ha_core.model.document import FEW_BYTES, Document
from ha_core.model.topic import legal_name

DEFAULT = "<default>"
"""Kafka's name for users or client ids without a quota of their own."""
MAX_BYTE_RATE = 1 << 53
"""Kafka keeps rates as floating-point numbers: up to here they are whole."""
MAX_PERCENTAGE = 100_000.0
"""Percent of one thread's time: a thousand threads."""
MIN_PERCENTAGE = 1e-6
"""Seconds are divided by it; a smaller divisor would overflow."""
MAX_NAME = 255
"""Characters of a user or a client id."""


class QuotaKind(Enum):
    """Limits by Kafka's names; each is counted separately."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"

    @property
    def label(self) -> str:
        """Its name in metrics and in the audit log."""
        return self.name.lower()


Limits = Mapping[QuotaKind, float]
"""Bytes per second, and percent of one thread's time; never empty."""
KINDS: Mapping[str, QuotaKind] = {kind.value: kind for kind in QuotaKind}


class QuotaEntity(NamedTuple):
    """The entity of a quota: a user, an instance (client id), an instance of a user, or one topic of a user.

    `DEFAULT` as user or instance means all that have no quota of their own.
    """

    user: str | None = None
    instance: str | None = None
    topic: str | None = None

    def __str__(self) -> str:
        parts = (("user", self.user), ("instance", self.instance), ("topic", self.topic))
        return ", ".join(f"{what} {name!r}" for what, name in parts if name is not None)


def check_entity(entity: QuotaEntity) -> None:
    """:raises ValueError: no quota can have this entity."""
    if entity.user is None and entity.instance is None:
        raise ValueError("a quota has neither user nor instance: name one")
    for what, name in (("user", entity.user), ("instance", entity.instance)):
        if name is not None and not 0 < len(name) <= MAX_NAME:
            raise ValueError(f"{what} of {len(name)} characters: a quota is for names of 1 to {MAX_NAME}")
    if entity.topic is None:
        return
    if entity.user in (None, DEFAULT) or entity.instance is not None:
        raise ValueError("a quota for a topic is for one user there: name a user, and no instance")
    if not legal_name(entity.topic):
        raise ValueError(f"topic {entity.topic!r}: no topic can have this name")


def check_limit(key: str, value: float) -> QuotaKind:
    """The kind of a limit. Errors have the words of Kafka's brokers.

    :raises ValueError: there is no such quota, or its value is out of range.
    """
    kind = KINDS.get(key)
    if kind is None:
        raise ValueError(f"Invalid configuration key {key}: {', '.join(KINDS)} are known")
    if not value > 0:
        raise ValueError(f"Quota {key} must be greater than 0")
    if kind is QuotaKind.REQUEST and value < MIN_PERCENTAGE:
        raise ValueError(f"Quota {key} must be {MIN_PERCENTAGE:f} at least")
    maximum = MAX_PERCENTAGE if kind is QuotaKind.REQUEST else MAX_BYTE_RATE
    if not value <= maximum or math.isnan(value):
        raise ValueError(f"Quota {key} must be {maximum:.0f} at most")
    if kind is not QuotaKind.REQUEST and abs(value % 1.0) > 1e-6:
        raise ValueError(f"{key} cannot be a fractional value.")
    return kind


def check_limits(entity: QuotaEntity, limits: Limits) -> None:
    """:raises ValueError: the quota is invalid."""
    check_entity(entity)
    if not limits:
        raise ValueError(f"a quota limits nothing: give {', '.join(KINDS)}, or remove it")
    for kind, value in limits.items():
        check_limit(kind.value, value)
    if entity.topic is not None and QuotaKind.REQUEST in limits:
        raise ValueError(f"of a topic only bytes are counted: leave {QuotaKind.REQUEST.value} out")


def named(name: str, users: Container[str]) -> QuotaEntity:
    """The entity of a bare name below `clients`: `USER.TOPIC`, or a client id.

    Users and topics may have dots, so known users decide; the longest user wins.
    """
    at = len(name)
    while (at := name.rfind(".", 0, at)) > 0:
        if name[:at] in users and legal_name(name[at + 1 :]):
            return QuotaEntity(user=name[:at], topic=name[at + 1 :])
    return QuotaEntity(instance=name)


class QuotaUse(Document):
    """`/quota_use/{gateway}`, ephemeral: recently used scopes, those nearest to their quota first. No revision; it
    decides only how long clients wait, so that all gateways together enforce a quota."""

    FOLDER = "/quota_use"
    KEY = "id"
    PLAIN_BYTES = FEW_BYTES

    id: str
    """Id of the gateway."""
    since: str
    """Random, new whenever the counters restart from 0."""
    at_s: float
    """Time of counting, on its writer's own clock."""
    uses: Mapping[str, tuple[float, float]] = {}
    """Scope (`QuotaScope.key`) → use in seconds of the whole quota, and that use times the seconds of the wait after
    it. Both only grow."""
