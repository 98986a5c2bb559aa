"""Discovery settings of a file or of the configuration: type → name, or `*` for every other name → value.

user_rate: {"*": 20, alice: 200}
address_rate: {"*": 100, 10.0.0.7: 1000}
queued_requests: {"*": 500, reports: 50}

Types, names and bounds are those of the platform's settings (`ha_core/platform/kinds/settings.py`). Older texts call
them app rate, IP rate, the special limits of both, and queue size.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gateway.config.section import FaultyDocumentError
from gateway.session.discovery_rates import EVERYBODY, DiscoverySettings
from ha_core.model.access import address

MAX_NAME = 255


class _Type(NamedTuple):
    """:ivar named: the normal form of a name; raises ValueError if it is none."""

    named: Callable[[str], str]
    maximum: int


def _plain(name: str) -> str:
    if not name or len(name) > MAX_NAME or not name.isprintable() or name != name.strip():
        raise ValueError(f"{_short(name)} is no name")
    return name


TYPES: Mapping[str, _Type] = {
    "user_rate": _Type(_plain, 10_000_000),
    "address_rate": _Type(address, 10_000_000),
    "queued_requests": _Type(_plain, 1_000_000),
}


def parse(document: Mapping[Any, Any]) -> DiscoverySettings:
    """:raises FaultyDocumentError: the settings have errors, and none of them is used."""
    known = ", ".join(TYPES)
    faults = [f"{_short(key)}: no such type of settings; there are {known}" for key in document if key not in TYPES]
    made = {name: dict(_values(name, kind, document.get(name), faults)) for name, kind in TYPES.items()}
    if faults:
        raise FaultyDocumentError(faults)
    return DiscoverySettings(**made)


def readable(settings: Mapping[str, Mapping[str, int]]) -> DiscoverySettings:
    """The platform's settings, without the types that only a newer version knows."""
    return DiscoverySettings(**{name: dict(settings.get(name, {})) for name in TYPES})


def _values(name: str, kind: _Type, values: Any, faults: list[str]) -> Iterator[tuple[str, int]]:
    if values is None:
        return
    if not isinstance(values, Mapping):
        faults.append(f"{name}: {_short(values)}: write `NAME: number` lines, and `{EVERYBODY!r}` for all other names")
        return
    for key, value in values.items():
        try:
            named = key if key == EVERYBODY else kind.named(str(key))
        except ValueError as error:
            faults.append(f"{name}: {_short(key)}: {error}; correct it")
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= kind.maximum:
            faults.append(f"{name}: {_short(key)}: {_short(value)}: give a whole number from 1 to {kind.maximum}")
            continue
        yield named, value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
