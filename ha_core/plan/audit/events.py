"""Ended operations as CloudEvents 1.0 in structured JSON, one in a line. The bytes depend on the operation alone.

`source` and `id` identify an event: an operation ends once. `sequence` (an extension of CloudEvents) is the number of
its seal, so that a receiver sees a gap.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ha_core.model.change_seal import SealedChange, shown_time
from ha_core.model.seal import ChangeSeal, ExportedChange, ExportedEvent, SealedOperation, canonical

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
TYPE = "switchyard.operation."
PLATFORM_TYPE = "switchyard.platform.changed"
"""A change of users, rights, quotas, from the platform's database."""
SOURCE = "/switchyard/"
MAX_WHY = 200


def event_of(installation: str, one: SealedOperation) -> dict[str, Any]:
    """:param installation: the cluster id that clients see, different in each installation."""
    operation: Mapping[str, Any] = one.operation or {}
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": one.id,
        "source": f"{SOURCE}{installation}",
        "type": f"{TYPE}{operation.get('state') or 'unreadable'}",
        "subject": one.id,
        "datacontenttype": "application/json",
        "data": {"operation": one.operation, "history": list(one.history)},
    }
    if ended := operation.get("ended"):
        event["time"] = ended
    if one.seal is not None:
        event["sequence"] = f"{one.seal.number:020d}"  # compared as text
        event["data"]["seal"] = one.seal.model_dump(mode="json", exclude_none=True, by_alias=True)
    return event


def platform_event(installation: str, change: Mapping[str, Any], sealed: SealedChange) -> dict[str, Any]:
    """
    :param change: as `switchyard platform history --json` has it, without hidden fields.
    :param sealed: the part of it that its seal covers, if it has one.
    """
    name = f"{change['kind']}/{change['key']}"
    data: dict[str, Any] = {"change": dict(change)}
    if sealed.seal is not None:
        seal = ChangeSeal(before=sealed.before, hash=sealed.seal, value=sealed.value, deleted=sealed.deleted)
        data["seal"] = seal.model_dump(mode="json")
    return {
        "specversion": "1.0",
        "id": f"{name}/{change['version']}",
        "source": f"{SOURCE}{installation}",
        "type": PLATFORM_TYPE,
        "subject": name,
        "time": change["changed"],
        "datacontenttype": "application/json",
        "data": data,
    }


def line_of(event: Mapping[str, Any]) -> bytes:
    """Without the line's end."""
    return canonical(event)


class ReadEvent(NamedTuple):
    """A line of an export.

    :ivar differs: fields of the event that are not what its operation and its seal make of them. No seal covers these,
        and receivers go by them: by `type`, for example, whether an operation has succeeded.
    """

    sealed: SealedOperation
    source: str
    differs: tuple[str, ...]


class PlatformChangeEvent(NamedTuple):
    """A line of an export with a change of the platform.

    :ivar differs: fields of the event or of the change that are not what was sealed.
    """

    change: dict[str, Any]
    sealed: SealedChange
    source: str
    differs: tuple[str, ...]


def read_line(line: str) -> ReadEvent | PlatformChangeEvent:
    """:raises ValueError: it is no exported event, or says something twice."""
    try:
        event = json.loads(line, object_pairs_hook=_once)
        if isinstance(event, dict) and event.get("type") == PLATFORM_TYPE:
            return _read_change(event)
        read = ExportedEvent.model_validate(event)
    except (ValueError, RecursionError) as error:
        first = " ".join(str(error).split())[:MAX_WHY]
        raise ValueError(f"it is no event of `switchyard history export --ndjson`: {first}") from error
    seal = read.data.seal
    name = read.id if seal is None else seal.operation
    sealed = SealedOperation(name, read.data.operation, read.data.history, seal)
    due = event_of(read.source.removeprefix(SOURCE), sealed)
    return ReadEvent(sealed, read.source, tuple(_different(event, due)))


def _read_change(event: Mapping[str, Any]) -> PlatformChangeEvent:
    read = ExportedChange.model_validate(event)
    change, seal = read.data.change, read.data.seal
    for field, kind in _CHANGE_FIELDS.items():
        if type(change.get(field)) is not kind:
            raise ValueError(f"the change's {field} is missing, or no {kind.__name__}")
    covered = (seal.value, seal.deleted, seal.before, seal.hash) if seal else (change.get("value"),)
    sealed = SealedChange(*(change[field] for field in _SEALED_FIELDS), *covered)
    due = platform_event(read.source.removeprefix(SOURCE), change, sealed)
    return PlatformChangeEvent(change, sealed, read.source, (*_different(event, due), *_not_as_sealed(change, sealed)))


_SEALED_FIELDS = ("kind", "key", "version", "changed_us", "by", "reason")
_CHANGE_FIELDS = {"kind": str, "key": str, "version": int, "changed_us": int, "by": str, "reason": str, "changed": str}


def _not_as_sealed(change: Mapping[str, Any], sealed: SealedChange) -> Iterator[str]:
    """Fields that people read, and whose content the seal has otherwise. A shown value may have more, computed."""
    if sealed.seal is None:
        return
    for field, covered in (("value", sealed.value), ("before", sealed.deleted)):
        shown = change.get(field)
        if (shown is None) != (covered is None):
            yield field
        elif covered is not None and isinstance(shown, Mapping):
            yield from (
                f"{field}.{name}" for name in sorted(covered.keys() & shown.keys()) if covered[name] != shown[name]
            )
        elif covered is not None:
            yield field
    if change["changed"] != shown_time(sealed.changed_us):
        yield "changed"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key must not stand twice: this version would take its last value, and other programs the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} stands in it twice")
    return found


def _different(event: Mapping[str, Any], due: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(event.keys() | due.keys()):
        if key not in event or key not in due or canonical(event[key]) != canonical(due[key]):
            yield key
