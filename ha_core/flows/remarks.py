"""Remarks about keys of a file that have no effect, are misspelt, or name an unknown cluster."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ha_core.flows.filters import parts
from ha_core.flows.keys import (
    CLIENT_KEYS_APPLIED,
    CLIENT_PREFIXES,
    CLIENTS,
    FLOW_KEYS,
    OWN_FILTERS,
    RENAMED,
    WORKER_PREFIXES,
    KeyUse,
)
from ha_core.flows.properties import PROVIDERS, Property

_OWN = ("clusters", PROVIDERS)
_COMMENT = re.compile(r"(?:^|\s)#")
_REFERENCE = re.compile(r"\$\{([^{}:]*)[^{}]*\}")
"""Group: provider, or a whole text that names none."""
_SHOWN = 200
"""Characters of a key or a value in a remark."""


class Remark(NamedTuple):
    """A fact about the file for its operator.

    :ivar line: line of the file; 0: the remark is about no single line.
    """

    line: int
    text: str
    error: bool = False

    @property
    def place(self) -> str:
        return f"line {self.line}: " if self.line else ""


def short(text: str) -> str:
    """A key or a value as a remark shows it."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def remarks(properties: Mapping[str, Property], aliases: Sequence[str]) -> Iterator[Remark]:
    """Remarks about the keys of a file, not about their values.

    :param aliases: aliases of the clusters that the file lists.
    """
    listed = properties.get(PROVIDERS)
    providers = frozenset(parts(listed.value)) if listed else frozenset[str]()
    for key, found in properties.items():
        yield from _about(key, found, aliases)
        if not found.referred:
            yield from _about_value(key, found, providers)


def _about(key: str, found: Property, aliases: Sequence[str]) -> Iterator[Remark]:
    if key.startswith(_OWN):
        return
    if "->" in key:
        source, _, rest = key.partition("->")
        target = _alias_of(rest, aliases)
        if target is None or source not in aliases:
            unknown = source if source not in aliases else rest.partition(".")[0]
            text = f"{short(key)} names the cluster {short(unknown)!r}, which `clusters` does not list"
            yield Remark(found.line, f"{text} ({', '.join(aliases)})", error=True)
            return
        name = rest.removeprefix(f"{target}.")
        if name not in FLOW_KEYS:
            name = name.removeprefix("source.").removeprefix("target.")
        yield from _about_flow_key(key, name, found)
        return
    alias = None if key in FLOW_KEYS else _alias_of(key, aliases)
    if alias is None:
        yield from _about_flow_key(key, key, found)
        return
    rest = key.removeprefix(f"{alias}.")
    if rest in FLOW_KEYS or rest in RENAMED:
        yield Remark(found.line, f"{key} has no effect, as in MirrorMaker 2: set it for a flow, {alias}->….{rest}")
    else:
        yield from _about_client_key(key, rest, found)


def _alias_of(key: str, aliases: Sequence[str]) -> str | None:
    """The alias that begins the key: the longest, as an alias may have dots."""
    return max((one for one in aliases if key.startswith(f"{one}.")), key=len, default=None)


def _about_value(key: str, found: Property, providers: Collection[str]) -> Iterator[Remark]:
    """Shows no value, which may be a password."""
    if _COMMENT.search(found.value):
        yield Remark(
            found.line,
            f"{short(key)}: the '#' and what follows it are a part of the value; a comment has a line of its own",
        )
    if any(provider not in providers for provider in _REFERENCE.findall(found.value)):
        yield Remark(
            found.line,
            f"{short(key)}: a ${{…}} stays there as it is, for {PROVIDERS} does not list its provider. References are "
            "${PROVIDER:PATH:KEY} and ${PROVIDER:KEY}",
        )


def _about_flow_key(key: str, name: str, found: Property) -> Iterator[Remark]:
    if name in RENAMED:
        yield Remark(found.line, f"{key}: Kafka 4.0 removed this name; write {RENAMED[name]}")
    elif name not in FLOW_KEYS:
        yield from _about_client_key(key, name, found)
    elif FLOW_KEYS[name].use is KeyUse.WITHOUT_EFFECT:
        yield Remark(found.line, f"{key} has no effect: {FLOW_KEYS[name].note}")


def _about_client_key(key: str, name: str, found: Property) -> Iterator[Remark]:
    name = name.removeprefix("cluster.")
    if name in CLIENT_KEYS_APPLIED or name.startswith((*CLIENT_PREFIXES, *OWN_FILTERS)):
        return
    if name.startswith(CLIENTS):
        if not name.partition(".")[2].startswith(CLIENT_PREFIXES):
            yield Remark(found.line, f"{key} has no effect: Switchyard's copier is no Java client")
    elif name.startswith(WORKER_PREFIXES):
        yield Remark(found.line, f"{key} has no effect: it belongs to Kafka Connect's workers")
    else:
        yield Remark(found.line, f"{short(key)} is not a key of MirrorMaker 2 and has no effect; is it misspelt?")
