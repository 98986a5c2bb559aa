"""Users, by the name that they log in with, and that rules and quotas refer to."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from ha_core.platform.entry import Entry, Reference
from ha_core.platform.scram import ScramKeys
from ha_core.platform.words import Name, UserName, Words

MAX_GROUPS = 100


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


class UserEntry(Entry):
    KIND = "users"
    ROLE = "user"
    HIDDEN: ClassVar[frozenset[str]] = frozenset({"scram"})

    name: UserName
    owner: Words = ""
    """The responsible person or team."""
    contact: Words = ""
    super_user: bool = False
    """May do everything, regardless of rules."""
    disabled: bool = False
    """Cannot log in, and may do nothing, until it is enabled again; the entry stays."""
    groups: Annotated[tuple[Name, ...], Field(max_length=MAX_GROUPS, strict=False), AfterValidator(_each_once)] = ()
    """Groups of users, for which rules may be written."""
    scram: dict[Literal["SCRAM-SHA-256", "SCRAM-SHA-512"], ScramKeys] = Field(default_factory=dict, repr=False)
    """Empty: the user logs in by a certificate or a token only."""

    def mentions(self) -> Iterator[Reference]:
        yield from (Reference("group", group) for group in self.groups)
        if self.owner:
            yield Reference("owner", self.owner)

    def summary(self) -> Mapping[str, Any]:
        return {**super().summary(), "mechanisms": {name: keys.iterations for name, keys in sorted(self.scram.items())}}
