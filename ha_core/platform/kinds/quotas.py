"""Quotas: bytes per second, and time of brokers' threads, before answers are throttled."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ha_core.model.quota import MAX_BYTE_RATE, MAX_PERCENTAGE, MIN_PERCENTAGE
from ha_core.platform import words
from ha_core.platform.entry import Entry, Reference


def _entity(text: str) -> str:
    return text if text == words.DEFAULT_ENTITY else words.name(text)


_Entity = Annotated[str, Field(min_length=1, max_length=words.MAX_NAME), AfterValidator(_entity)]


def _whole(value: Any) -> Any:
    """Kafka's tools send rates as floating-point numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_ByteRate = Annotated[int, Field(le=MAX_BYTE_RATE), BeforeValidator(_whole)]


class QuotaEntry(Entry):
    """For a user, one topic or instance (client id) of a user, or an instance of any user.

    The rates have Kafka's names.
    """

    KIND = "quotas"
    KEY = ("user", "topic", "instance")

    user: _Entity | None = None
    """`<default>`: every user without a quota of its own."""
    topic: words.TopicName | None = None
    instance: _Entity | None = None
    producer_byte_rate: _ByteRate | None = None
    """Bytes per second."""
    consumer_byte_rate: _ByteRate | None = None
    request_percentage: Annotated[float, Field(le=MAX_PERCENTAGE, allow_inf_nan=False)] | None = None
    """Percentage of one thread's time."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.user is None and self.instance is None:
            raise ValueError("a quota without an entity: name a user, or an instance")
        if self.topic is not None and (self.user is None or self.instance is not None):
            raise ValueError("a topic's quota is for one user: name the user, and no instance")
        if self.topic is not None and self.request_percentage is not None:
            raise ValueError("a topic's quota counts bytes only: leave request_percentage out")
        limits = {name: getattr(self, name) for name in LIMITS}
        if all(value is None for value in limits.values()):
            raise ValueError(f"a quota limits nothing: give {', '.join(LIMITS)}, or delete it")
        for name, value in limits.items():
            if value is not None and value <= 0:
                raise ValueError(f"{name} {value} would block everything; give more than 0, or deny it by a rule")
        if self.request_percentage is not None and self.request_percentage < MIN_PERCENTAGE:
            raise ValueError(f"request_percentage {self.request_percentage}: give {MIN_PERCENTAGE:f} at least")
        return self

    @classmethod
    def is_none(cls, value: Mapping[str, Any]) -> bool:
        return all(value.get(name) is None for name in LIMITS)

    def mentions(self) -> Iterator[Reference]:
        if self.user is not None:
            yield Reference("user", self.user, needed=self.user != words.DEFAULT_ENTITY)
        if self.topic is not None:
            yield Reference("topic", self.topic)
        if self.instance is not None:
            yield Reference("instance", self.instance)


LIMITS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
