"""Pre-flight of clients: versions of client software that a move of their group can stop for good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.model import Use
from ha_core.plan.facts.verdict import Verdicts, listed, warning
from ha_core.plan.preflight.case import PreflightCase

_JAVA = "apache-kafka-java"


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect of Java consumers, which stop when their coordinator changes or does not answer."""

    issue: str
    versions: frozenset[str]
    what: str
    way: str
    alone: bool = False
    """Affects only consumers with manually assigned partitions, which commit without being members."""


DEFECTS = (
    Defect(
        "KAFKA-10793",
        frozenset({"2.5.0", "2.5.1", "2.6.0", "2.6.1", "2.7.0"}),
        "a consumer may never find its coordinator again, and reads no more",
        "Update them to 2.6.2, 2.7.1, 2.8.0 or newer",
    ),
    Defect(
        "KAFKA-13563",
        frozenset({"2.6.2", "2.6.3", "2.7.1", "2.7.2", "2.8.0", "2.8.1", "2.8.2", "3.0.0", "3.0.1", "3.0.2", "3.1.0"}),
        "a consumer with assigned partitions may never commit again",
        "Update them to 3.1.1 or newer",
        alone=True,
    ),
)


def defects_of(software: str | None) -> tuple[str, ...]:
    """Issues that may affect a consumer of this software when its group moves.

    :param software: `NAME/VERSION`, as clients report it (KIP-511).
    """
    name, _, version = (software or "").partition("/")
    return tuple(defect.issue for defect in DEFECTS if name == _JAVA and version in defect.versions)


class _Client(NamedTuple):
    user: str
    instance: str
    version: str

    @property
    def words(self) -> str:
        return f"{self.user}+{self.instance} ({self.version})" if self.instance else f"{self.user} ({self.version})"


def versions(case: PreflightCase) -> Verdicts:
    """Checks the versions that clients last reported to gateways in API_VERSIONS (KIP-511)."""
    for defect in DEFECTS:
        found = sorted(set(_clients(case, defect)))
        if found:
            yield warning(
                "client-version",
                defect.issue,
                f"{listed(client.words for client in found)}: in these versions of Java clients {defect.what}, when "
                f"its group moves ({defect.issue}).",
                f"{defect.way}, or watch them after the move and restart those that stop.",
                number=len(found),
                unit="clients",
            )


def _clients(case: PreflightCase, defect: Defect) -> Iterator[_Client]:
    for user, usage in case.usage.items():
        read = _of(usage.topics, case.moves.topics, {"fetch"})
        grouped = _of(usage.groups, case.moves.groups, {"join", "commit"})
        members = {use.instance for use in _of(usage.groups, case.moves.groups, {"join"})}
        for use in grouped if defect.alone else (*read, *grouped):
            if defect.issue in defects_of(use.software) and not (defect.alone and use.instance in members):
                yield _Client(user, use.instance, (use.software or "").partition("/")[2])


def _of(uses: Mapping[str, tuple[Use, ...]], names: tuple[str, ...], how: set[str]) -> tuple[Use, ...]:
    return tuple(use for name in names for use in uses.get(name, ()) if use.how in how)
