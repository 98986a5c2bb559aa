"""Remarks about keys of a file that have no effect, are misspelt, or name an unknown cluster."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ha_core.flows.keys import (
    CLIENT_KEYS_APPLIED,
    CLIENT_PREFIXES,
    CLIENTS,
    FLOW_KEYS,
    RENAMED,
    WORKER_PREFIXES,
    KeyUse,
)
from ha_core.flows.properties import Property

_OWN = ("clusters", "config.providers")


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


def remarks(properties: Mapping[str, Property], aliases: Sequence[str]) -> Iterator[Remark]:
    """Remarks about the keys of a file, not about their values.

    :param aliases: aliases of the clusters that the file lists.
    """
    for key, found in properties.items():
        yield from _about(key, found, aliases)


def _about(key: str, found: Property, aliases: Sequence[str]) -> Iterator[Remark]:
    if key.startswith(_OWN):
        return
    if "->" in key:
        flow, _, rest = key.partition(".")
        source, _, target = flow.partition("->")
        unknown = [alias for alias in (source, target) if alias not in aliases]
        if unknown:
            known = ", ".join(aliases)
            text = f"{key} names the cluster {unknown[0]!r}, which `clusters` does not list ({known})"
            yield Remark(found.line, text, error=True)
            return
        yield from _about_flow_key(key, rest.removeprefix("source.").removeprefix("target."), found)
        return
    alias = next((one for one in aliases if key.startswith(f"{one}.")), None)
    if alias is None:
        yield from _about_flow_key(key, key, found)
        return
    rest = key.removeprefix(f"{alias}.")
    if rest in FLOW_KEYS or rest in RENAMED:
        yield Remark(found.line, f"{key} has no effect, as in MirrorMaker 2: set it for a flow, {alias}->….{rest}")
    else:
        yield from _about_client_key(key, rest, found)


def _about_flow_key(key: str, name: str, found: Property) -> Iterator[Remark]:
    if name in RENAMED:
        yield Remark(found.line, f"{key}: Kafka 4.0 removed this name; write {RENAMED[name]}")
    elif name not in FLOW_KEYS:
        yield from _about_client_key(key, name, found)
    elif FLOW_KEYS[name].use is KeyUse.WITHOUT_EFFECT:
        yield Remark(found.line, f"{key} has no effect: {FLOW_KEYS[name].note}")


def _about_client_key(key: str, name: str, found: Property) -> Iterator[Remark]:
    name = name.removeprefix("cluster.")
    if name in CLIENT_KEYS_APPLIED or name.startswith(CLIENT_PREFIXES):
        return
    if name.startswith(CLIENTS):
        if not name.partition(".")[2].startswith(CLIENT_PREFIXES):
            yield Remark(found.line, f"{key} has no effect: Switchyard's copier is no Java client")
    elif name.startswith(WORKER_PREFIXES):
        yield Remark(found.line, f"{key} has no effect: it belongs to Kafka Connect's workers")
    else:
        yield Remark(found.line, f"{key} is not a key of MirrorMaker 2 and has no effect; is it misspelt?")
