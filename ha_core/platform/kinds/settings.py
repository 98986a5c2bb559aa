"""Settings of running gateways: each has a type and a name that it applies to."""

from collections.abc import Callable, Iterator
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from ha_core.platform import words
from ha_core.platform.entry import Entry, Reference


class SettingType(NamedTuple):
    """
    :ivar name: checks a name; its ValueError has the reason.
    :ivar role: role of the names, by which lists are filtered.
    :ivar maximum: the maximum; the minimum is 1.
    """

    help: str
    name: Callable[[str], str]
    role: str
    maximum: int


TYPES = {
    "queued_requests": SettingType("requests that wait for one cluster", words.cluster_name, "cluster", 1_000_000),
    "user_rate": SettingType("requests per second of a user", words.user_name, "user", 10_000_000),
    "address_rate": SettingType("requests per second from an address", words.address, "address", 10_000_000),
}
"""Each type has its own version, which every change and deletion in it raises."""


class SettingEntry(Entry):
    KIND = "settings"
    KEY = ("type", "name")

    type: Literal["queued_requests", "user_rate", "address_rate"]
    name: Annotated[str, Field(min_length=1, max_length=words.MAX_NAME)] = words.EVERYBODY
    """`*`: for all that have no setting of their own."""
    value: int

    @model_validator(mode="after")
    def _fits(self) -> Self:
        kind = TYPES[self.type]
        if self.name != words.EVERYBODY and kind.name(self.name) != self.name:
            raise ValueError(f"{words.short(self.name)} is written {kind.name(self.name)}")
        if not 1 <= self.value <= kind.maximum:
            raise ValueError(f"{self.type} {self.value}: {kind.help}, 1 to {kind.maximum}")
        return self

    def mentions(self) -> Iterator[Reference]:
        yield Reference("type", self.type)
        if self.name != words.EVERYBODY:
            yield Reference(TYPES[self.type].role, self.name)

    def version_type(self) -> str:
        return self.type
