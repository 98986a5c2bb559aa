"""A kind of what the platform holds: a class that says what belongs to it, by what key, and what it refers to.

Tables, versions, change times, REST, paging and the feeds of gateways follow from that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ha_core.platform.errors import InvalidError
from ha_core.platform.words import short

KINDS: dict[str, type[Entry]] = {}
"""By the name that paths and commands have. Filled by importing `ha_core.platform.kinds`."""


class Reference(NamedTuple):
    """
    :ivar role: `user`, `group`, `topic`, `cluster` …: lists are filtered by it.
    :ivar needed: it has to exist, and cannot be deleted before what mentions it.
    """

    role: str
    name: str
    needed: bool = False


class Entry(BaseModel):
    """One thing of a kind. Values are JSON; a field that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)
    KIND: ClassVar[str] = ""
    ROLE: ClassVar[str] = ""
    """As what others mention it; empty: nobody does."""
    HIDDEN: ClassVar[frozenset[str]] = frozenset()
    """Fields that gateways read and people are not shown. One that a change leaves out stays as it is."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if cls.KIND:
            KINDS[cls.KIND] = cls

    @property
    def key(self) -> str:
        """Unique in its kind, never changed by a change of values, at most 255 characters."""
        raise NotImplementedError

    def mentions(self) -> Iterator[Reference]:
        """What it refers to."""
        yield from ()

    def version_type(self) -> str:
        """Of what it raises the version that gateways ask for, besides its own; empty: of nothing."""
        return ""

    def summary(self) -> Mapping[str, Any]:
        """As people are shown it."""
        return self.model_dump(mode="json", exclude=set(self.HIDDEN))

    def text(self) -> str:
        """As it is stored, and as gateways read it."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def read(cls, said: Any) -> Self:
        """From JSON data.

        :raises InvalidError: names kind, field, and what is wrong there.
        """
        try:
            return cls.model_validate(said)
        except ValidationError as error:
            raise InvalidError(f"{cls.KIND}: {first_problem(error)}", problems=problems(error)) from None


def problems(error: ValidationError) -> list[dict[str, str]]:
    """Where, and what; never the value that was given, which may be a secret."""
    return [
        {"field": ".".join(str(part) for part in one["loc"]), "problem": one["msg"].removeprefix("Value error, ")}
        for one in error.errors(include_url=False, include_input=False, include_context=False)[:20]
    ]


def first_problem(error: ValidationError) -> str:
    found = problems(error)[0]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{found['field'] or 'the value'}: {found['problem']}{more}"


def key_of(*parts: str | None) -> str:
    """A key for what is known by several names, which may have any characters: 32 hexadecimal digits."""
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def kind_of(said: str) -> type[Entry]:
    """:raises InvalidError: there is no such kind."""
    found = KINDS.get(said)
    if found is None:
        raise InvalidError(f"kind {short(said)} is not known; one of {', '.join(sorted(KINDS))}")
    return found
