"""Options shared by `quotas`, on the platform, and `client-quotas`, in ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ha_core.cli.command import OptionGroup, option
from ha_core.model.quota import QuotaEntity, QuotaKind

User = Annotated[str | None, option("A user; <default>: every user without a quota of its own.")]
Topic = Annotated[str | None, option("One topic of the user.")]


@dataclass(frozen=True)
class QuotaOptions(OptionGroup):
    user: User = None
    topic: Topic = None
    instance: Annotated[
        str | None, option("A client id, of the user or of all; <default>: all without a quota of their own.")
    ] = None

    def entity(self) -> QuotaEntity:
        return QuotaEntity(self.user, self.instance, self.topic)


@dataclass(frozen=True)
class LimitOptions(OptionGroup):
    producer_byte_rate: Annotated[float | None, option("Bytes per second written.")] = None
    consumer_byte_rate: Annotated[float | None, option("Bytes per second read.")] = None
    request_percentage: Annotated[float | None, option("Percentage of one thread's time.")] = None

    def given(self) -> dict[QuotaKind, float]:
        limits = {
            QuotaKind.PRODUCE: self.producer_byte_rate,
            QuotaKind.FETCH: self.consumer_byte_rate,
            QuotaKind.REQUEST: self.request_percentage,
        }
        return {kind: value for kind, value in limits.items() if value is not None}
