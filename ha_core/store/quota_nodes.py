"""Quotas as nodes, in the form in which Kafka keeps them, below the root:

    /config/clients/{user}.{topic}          quota of a user in one topic
    /config/clients/{client id}             quota of an instance, of any user
    /config/users/{user}                    quota of a user
    /config/users/{user}/clients/{id}       quota of an instance of a user
    /config/changes/config_change_{number}  the changed node, by its path below /config

Each is `{"version": 1, "config": {"producer_byte_rate": "1024", "consumer_byte_rate": "2048"}}`. A node below `clients`
may be of either kind, since users and topics may have dots. So nodes that are written here name their entity, too; for
nodes of other writers the known users decide (`model.quota.named`). Quotas of the platform are marked in the node.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ha_core.model import UnreadableDocumentError
from ha_core.model.quota import DEFAULT, KINDS, Limits, QuotaEntity, QuotaKind, check_entity, check_limit

ROOT = "/config"
CLIENTS = f"{ROOT}/clients"
USERS = f"{ROOT}/users"
CHANGES = f"{ROOT}/changes"
FOLDERS = (ROOT, CLIENTS, USERS, CHANGES)
"""Folders of every tree."""
PREFIX = "config_change_"
MAX_BYTES = 10_000
MAX_NOTE = 10**10 - 1
_DIGITS = 10
_VERSION = 1
_NOTE_VERSION = 2
_PLATFORM = "platform"


class StoredQuota(NamedTuple):
    """A quota as it was read.

    :ivar entity: its user, topic or instance; None: `model.quota.named` has to tell it from `name`.
    :ivar name: of the node below `clients`.
    :ivar published: it is the platform's, and can be changed there only.
    """

    entity: QuotaEntity | None
    name: str
    limits: Limits
    published: bool = False


def encoded(name: str) -> str:
    """As Kafka's Sanitizer encodes it."""
    if name == DEFAULT:
        return name
    if name in {".", ".."}:
        return name.replace(".", "%2E")
    return quote(name, safe="").replace("~", "%7E")


def decoded(node: str) -> str:
    return node if node == DEFAULT else unquote(node)


def path_of(entity: QuotaEntity) -> str:
    if entity.topic is not None:
        return f"{CLIENTS}/{encoded(f'{entity.user}.{entity.topic}')}"
    if entity.user is None:
        return f"{CLIENTS}/{encoded(entity.instance or '')}"
    base = f"{USERS}/{encoded(entity.user)}"
    return base if entity.instance is None else f"{base}/clients/{encoded(entity.instance)}"


def parents_of(path: str) -> tuple[str, ...]:
    """The nodes above it, from the top, except those of every tree."""
    parts = path.split("/")
    found = ("/".join(parts[:end]) for end in range(2, len(parts)))
    return tuple(parent for parent in found if parent not in FOLDERS)


def entity_at(path: str) -> tuple[QuotaEntity | None, str] | None:
    """The entity of a path, as far as the path shows it, and the node's name; None: it is not a quota's path."""
    parts = path.split("/")
    match parts[1:]:
        case ["config", "clients", node] if node:
            name = decoded(node)
            return (QuotaEntity(instance=DEFAULT), name) if name == DEFAULT else (None, name)
        case ["config", "users", node] if node:
            return QuotaEntity(user=decoded(node)), decoded(node)
        case ["config", "users", node, "clients", instance] if node and instance:
            return QuotaEntity(user=decoded(node), instance=decoded(instance)), decoded(instance)
        case _:
            return None


def to_bytes(entity: QuotaEntity, limits: Limits, published: bool = False) -> bytes:
    document: dict[str, Any] = {
        "version": _VERSION,
        "config": {kind.value: _number(limits[kind]) for kind in QuotaKind if kind in limits},
    }
    if entity.topic is not None:
        document["entity"] = {"user": entity.user, "topic": entity.topic}
    elif entity.user is None:
        document["entity"] = {"client-id": entity.instance}
    if published:
        document["origin"] = _PLATFORM
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def from_bytes(path: str, data: bytes) -> StoredQuota | None:
    """None: it limits nothing.

    :raises UnreadableDocumentError: this version cannot read it as a quota.
    """
    where = entity_at(path)
    if where is None:
        raise UnreadableDocumentError(f"{path}: not the path of a quota")
    entity, name = where
    if not data:
        return None
    document = _parsed(path, data)
    limits: dict[QuotaKind, float] = {}
    for key, value in _object(path, document, "config").items():
        if key not in KINDS:
            continue  # Other keys of brokers are not for gateways.
        try:
            limits[check_limit(key, float(str(value)))] = float(str(value))
        except ValueError as error:
            raise UnreadableDocumentError(f"{path}: {key} is {str(value)[:40]!r}: {error}") from None
    if not limits:
        return None
    if entity is None and "entity" in document:
        entity = _entity_of(path, _object(path, document, "entity"))
        if path_of(entity) != path:
            raise UnreadableDocumentError(f"{path}: the quota inside is for {entity}")
    return StoredQuota(entity, name, limits, document.get("origin") == _PLATFORM)


def note_to_bytes(path: str) -> bytes:
    note = {"version": _NOTE_VERSION, "entity_path": path.removeprefix(f"{ROOT}/")}
    return json.dumps(note, separators=(",", ":")).encode()


def note_from_bytes(data: bytes) -> str | None:
    """The path of the changed node; None: the note's format is unknown. ZooKeeper interprets the result as a path."""
    try:
        note = json.loads(data[:MAX_BYTES])
        below = note["entity_path"] if "entity_path" in note else f"{note['entity_type']}/{note['entity_name']}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(below, str) or not below.isascii() or not below.isprintable():
        return None
    return None if {"", ".", ".."}.intersection(below.split("/")) else f"{ROOT}/{below}"


def number_of(note: str) -> int | None:
    """The number in a note's name; None: the name is not one of a note."""
    digits = note.removeprefix(PREFIX)
    valid = note.startswith(PREFIX) and len(digits) == _DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if valid else None


def note_path(number: int) -> str:
    return f"{CHANGES}/{PREFIX}{number:0{_DIGITS}d}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _parsed(path: str, data: bytes) -> Mapping[str, Any]:
    if len(data) > MAX_BYTES:
        raise UnreadableDocumentError(f"{path}: {len(data)} bytes; a quota has {MAX_BYTES} at most")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableDocumentError(f"{path}: not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise UnreadableDocumentError(f'{path}: not a JSON object with "version": {_VERSION}')
    return document


def _object(path: str, document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise UnreadableDocumentError(f"{path}: {key} is not a JSON object")
    return value


def _entity_of(path: str, fields: Mapping[str, Any]) -> QuotaEntity:
    names = {key: name for key, name in fields.items() if isinstance(name, str)}
    entity = QuotaEntity(names.get("user"), names.get("client-id"), names.get("topic"))
    try:
        check_entity(entity)
        path_of(entity)  # JSON has halves of pairs, which no path can have
    except ValueError as error:
        raise UnreadableDocumentError(f"{path}: {error}") from None
    return entity
