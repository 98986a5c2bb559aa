"""Builds the text of a flow declaration from properties or YAML, and refuses passwords in it.

Many processes can read a declaration. So a value that may be a password, a key or a token must be a reference
(`${env:NAME}`, `${file:PATH:KEY}`, `ha_core.flows.properties`), which each worker resolves on its own host. Comments
are dropped, because a line that was commented out may contain a password.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import javaproperties

from ha_core.flows.errors import FlowError
from ha_core.flows.filters import parts
from ha_core.flows.properties import PROVIDERS, REFERENCE, parse

_SECRET_KEY = re.compile(
    r"(?:password|passphrase|secret|credentials?|token|keystore\.key|private\.key|jaas\.config|user\.info)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(r"PRIVATE KEY-----|(?:password|passphrase|secret)[\"']?\s*[=:]", re.IGNORECASE)
_JAAS = "jaas.config"
_OPTION = re.compile(r"([\w.]+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s;]*)", re.DOTALL)
_OPEN_OPTIONS = frozenset({"username", "tokenauth"})
"""Options of login modules that are not secret. All others are treated as secrets."""
_MAX_KEYS = 10_000


def keys_of(nested: Any, name: str) -> dict[str, str]:
    """Keys and values of a document that was read from YAML or JSON, in the document's order.

    Keys are those of properties, flat (`A.bootstrap.servers`), nested, or both. A list becomes a comma-separated value.

    :param name: the document's name, for errors.
    :raises FlowError: the document is not a mapping, or has a value that no property can have. The text shows no value.
    """
    if not isinstance(nested, Mapping):
        raise FlowError(f"{name}: it must be a mapping, as in: clusters: [primary, backup]")
    if {"apiVersion", "kind"} <= nested.keys():
        raise FlowError(
            f"{name}: this is a resource of Kubernetes ({nested['kind']!s:.100}). Give the keys of an mm2.properties, "
            "as in: clusters: [primary, backup]"
        )
    found: dict[str, str] = {}
    for key, value in _flat(nested, "", name):
        if key in found:
            raise FlowError(f"{name}: {key} is set twice, flat and nested; remove one of them")
        found[key] = value
        if len(found) > _MAX_KEYS:
            raise FlowError(f"{name} has more than {_MAX_KEYS:,} keys")
    return found


def keys_of_properties(text: str, name: str) -> dict[str, str]:
    """Keys and values of a properties text, in the text's order.

    :raises FlowError: a key occurs twice.
    """
    return {key: found.value for key, found in parse(text, name).items()}


def text_of(keys: Mapping[str, str]) -> str:
    """The keys as properties that Java reads: one line per key, in ASCII."""
    return "".join(f"{javaproperties.join_key_value(key, value, separator=' = ')}\n" for key, value in keys.items())


def require_no_secrets(keys: Mapping[str, str], name: str) -> None:
    """:raises FlowError: values may be secrets and are not references. The text names their keys and shows no value."""
    if open_keys := list(_open_secrets(keys)):
        raise FlowError(
            f"{name}: a declaration must not contain a password, key or token. Replace the values of "
            f"{', '.join(open_keys)} by references such as ${{env:NAME}} or ${{file:PATH:KEY}}, and list their "
            f"providers in {PROVIDERS}; each worker resolves references on its own host."
        )


def _open_secrets(keys: Mapping[str, str]) -> Iterator[str]:
    providers = frozenset(parts(keys.get(PROVIDERS, "")))
    for key, value in keys.items():
        if key.endswith(_JAAS):
            options = _OPTION.findall(value)
            rest = _OPTION.sub("", value)
            closed = all(
                option in _OPEN_OPTIONS or _is_reference(given.strip("\"'"), providers) for option, given in options
            ) and not _SECRET_VALUE.search(rest)
            if not (closed or _is_reference(value, providers)):
                yield key
        elif _SECRET_KEY.search(key):
            if not _is_reference(value, providers):
                yield key
        elif _SECRET_VALUE.search(value):
            yield key


def _is_reference(value: str, providers: frozenset[str]) -> bool:
    """Whether the value is blank, or a single reference to a provider that the text lists. References to other
    providers are not resolved, so they would remain plain text."""
    found = REFERENCE.fullmatch(value.strip())
    return not value.strip() or (found is not None and found.group(1) in providers)


def _flat(nested: Mapping[Any, Any], prefix: str, name: str) -> Iterator[tuple[str, str]]:
    for key, value in nested.items():
        if not isinstance(key, str) or not key:
            raise FlowError(f"{name}: a key {f'under {prefix} ' if prefix else ''}is not a string; write it in quotes")
        whole = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping):
            yield from _flat(value, whole, name)
        else:
            yield whole, _value(value, whole, name)


def _value(value: Any, key: str, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if any(isinstance(one, list | Mapping) for one in value):
            raise FlowError(f"{name}: an entry of {key} is a list or a mapping; a property has a list of texts")
        items = [_value(one, key, name) for one in value]
        if any("," in one for one in items):
            raise FlowError(f"{name}: an entry of {key} has a comma; a property separates entries by it")
        return ", ".join(items)
    raise FlowError(f'{name}: {key} has no value; remove it, or write "" for a blank one')
