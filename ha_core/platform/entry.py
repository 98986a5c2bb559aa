"""A kind of entry: a class that declares its fields, its key and its references.

Tables, versions, change times, REST, paging and the gateways' feeds follow from that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ha_core.platform.errors import InvalidError
from ha_core.platform.words import short

KINDS: dict[str, type[Entry]] = {}
"""By their names in paths and commands. Filled by importing `ha_core.platform.kinds`."""


class Reference(NamedTuple):
    """
    :ivar role: `user`, `group`, `topic`, `cluster` …: lists are filtered by it.
    :ivar needed: it must exist, and cannot be deleted while an entry mentions it.
    """

    role: str
    name: str
    needed: bool = False


class Entry(BaseModel):
    """One entry of a kind. Values are JSON; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)
    KIND: ClassVar[str] = ""
    KEY: ClassVar[tuple[str, ...]] = ("name",)
    """Fields that identify an entry. The others may change."""
    ROLE: ClassVar[str] = ""
    """The role in which other entries mention it; empty: none do."""
    HIDDEN: ClassVar[frozenset[str]] = frozenset()
    """Fields for gateways only, hidden from people. A change that leaves one out keeps it."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if cls.KIND:
            KINDS[cls.KIND] = cls

    @property
    def key(self) -> str:
        """Unique in its kind, at most 255 characters."""
        return _key([getattr(self, name) for name in self.KEY])

    @classmethod
    def key_in(cls, value: Mapping[str, Any]) -> str:
        """The key of the entry that a value is for. Other fields than those of the key may be missing.

        :raises InvalidError: the fields of the key are missing or no texts, or there are unknown fields.
        """
        if set(cls.KEY) == set(cls.model_fields):
            return cls.read(value).key
        if unknown := value.keys() - cls.model_fields.keys():
            raise InvalidError(f"{cls.KIND}: {short(min(unknown, key=str))} is no field")
        named = [value.get(name, cls.model_fields[name].default) for name in cls.KEY]
        if not all(one is None or isinstance(one, str) for one in named):
            raise InvalidError(f"{cls.KIND}: {', '.join(cls.KEY)} name an entry: give texts")
        return _key(named)

    @classmethod
    def is_none(cls, _value: Mapping[str, Any]) -> bool:
        """Whether an entry with this value would be without effect: a change to it is a deletion."""
        return False

    def fields(self) -> dict[str, Any]:
        """The value that people see, for a change of some of its fields."""
        return self.model_dump(exclude=set(self.HIDDEN))

    def mentions(self) -> Iterator[Reference]:
        """References to other entries."""
        yield from ()

    def version_type(self) -> str:
        """Type whose version, which gateways poll, every change raises; empty: none."""
        return ""

    def summary(self) -> Mapping[str, Any]:
        """The value that people see."""
        return self.model_dump(mode="json", exclude=set(self.HIDDEN))

    def text(self) -> str:
        """The value as it is stored, and as gateways read it."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def shown(cls, text: str) -> dict[str, Any]:
        """A stored value without hidden fields, as JSON that no version has interpreted."""
        return {name: value for name, value in json.loads(text).items() if name not in cls.HIDDEN}

    @classmethod
    def read(cls, value: Any) -> Self:
        """Parse JSON data.

        :raises InvalidError: names kind, field and problem.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise InvalidError(f"{cls.KIND}: {first_problem(error)}", problems=problems(error)) from None


def problems(error: ValidationError) -> list[dict[str, str]]:
    """Field and problem; never the given value, which may be a secret."""
    return [
        {"field": ".".join(str(part) for part in one["loc"]), "problem": one["msg"].removeprefix("Value error, ")}
        for one in error.errors(include_url=False, include_input=False, include_context=False)[:20]
    ]


def first_problem(error: ValidationError) -> str:
    found = problems(error)[0]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{found['field'] or 'the value'}: {found['problem']}{more}"


def _key(names: Sequence[Any]) -> str:
    """One name is the key. For several names, with any characters, 32 hexadecimal digits are."""
    return str(names[0]) if len(names) == 1 else blake2b(json.dumps(names).encode(), digest_size=16).hexdigest()


def kind_of(name: str) -> type[Entry]:
    """:raises InvalidError: the kind is unknown."""
    found = KINDS.get(name)
    if found is None:
        raise InvalidError(f"kind {short(name)} is not known; one of {', '.join(sorted(KINDS))}")
    return found
