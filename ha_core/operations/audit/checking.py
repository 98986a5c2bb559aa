"""Checks the seals of the history in ZooKeeper, or of an exported file; and seals what has ended without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappush, heappushpop
from pathlib import Path
from typing import Any, NamedTuple

from ha_core.model.change_seal import SealedChange
from ha_core.model.seal import SealedOperation, SealFingerprint, SealHead
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import unchanged
from ha_core.plan.audit.change_check import ChangeCheck
from ha_core.plan.audit.events import PlatformChangeEvent, ReadEvent, read_line
from ha_core.plan.audit.seal_check import SealCheck, SealFault
from ha_core.plan.facts.verdict import listed
from ha_core.store.errors import StoreError
from ha_core.store.store import Store

MAX_FAULTS = 1_000
MAX_LINE = 64 * 1024 * 1024
"""Characters of one exported event; the store takes no more of an operation either."""


class ChangesReport(NamedTuple):
    """Checked changes of the platform: users, rights, quotas.

    :ivar earlier: changes by a version that sealed none.
    """

    checked: int
    earlier: int
    newest: SealFingerprint


class PlatformHistory(NamedTuple):
    """
    :ivar newest: seal of the newest change, as it is noted beside the changes.
    """

    changes: Callable[[], Iterable[SealedChange]]
    newest: Callable[[], str]


class ExpectedSeals(NamedTuple):
    """Fingerprints that were kept elsewhere: of the newest operation then, and of the newest change of the platform."""

    operations: SealFingerprint | None = None
    changes: SealFingerprint | None = None


NONE_EXPECTED = ExpectedSeals()


@dataclass(frozen=True, slots=True)
class SealReport:
    """The result of a check."""

    checked: int
    anchor: SealFingerprint
    """The seal before the first that was checked: it is taken as it is."""
    newest: SealFingerprint
    faults: tuple[SealFault, ...]
    earlier: int
    """Operations that ended before the first seal, under an earlier version, and have none."""
    strict: bool | None
    """None: not known, as of a file."""
    changes: ChangesReport | None = None
    """Changes of the platform; None: none were checked."""

    def to_json(self) -> dict[str, Any]:
        return {
            "checked": self.checked,
            "anchor": str(self.anchor),
            "newest": str(self.newest),
            "faults": [{"kind": fault.kind, "about": fault.about, "text": fault.text} for fault in self.faults],
            "earlier": self.earlier,
            "strict": self.strict,
            "changes": None if self.changes is None else self.changes._asdict() | {"newest": str(self.changes.newest)},
        }


def check_stored(
    store: Store, expected: ExpectedSeals = NONE_EXPECTED, platform: PlatformHistory | None = None
) -> SealReport:
    """Check all seals that are in ZooKeeper, and those of the platform. Operations that end meanwhile are left out."""
    names = store.operation_names()
    damage: list[SealFault] = []
    head: SealHead | None = None
    try:
        head = store.seal_head()
    except StoreError as error:
        damage.append(SealFault("head", "/seals", str(error)))
    check = SealCheck(_anchor(store, head), expected.operations)
    sealed: set[str] = set()
    first_at = ""

    def followed() -> Iterator[SealedOperation]:
        nonlocal first_at
        for one in store.sealed_operations(check.anchor.number, None if head is None else head.number):
            assert one.seal is not None
            first_at = first_at or one.seal.at
            sealed.add(one.seal.operation)
            yield one

    found = [*damage, *check.faults(followed()), *check.end(head)]
    if head is None:
        right = SealHead(number=check.newest.number, hash=check.newest.hash)
        right = right.changed(trimmed=check.anchor.number, trimmed_hash=check.anchor.hash)
        found.append(SealFault("head", "/seals", f"by the seals that are there it should be {right.model_dump_json()}"))
    unsealed = list(_unsealed(store, names - sealed))
    late = [name for name, ended in unsealed if first_at and ended >= first_at]
    found += map(_without_seal, late)
    earlier = len(unsealed) - len(late)
    strict = store.strict_history() is not None
    changes = ChangeCheck(expected.changes, None if platform is None else platform.newest())
    if platform is not None:
        faults = _Faults()
        faults.add(changes.faults(platform.changes()))
        faults.add(changes.end(platform.newest()))
        found += faults.found
    return SealReport(
        check.checked,
        check.anchor,
        check.newest,
        tuple(found[:MAX_FAULTS]),
        earlier,
        strict,
        None if platform is None else _changes_report(changes),
    )


def _changes_report(check: ChangeCheck) -> ChangesReport:
    return ChangesReport(check.checked, check.earlier, check.newest)


def _anchor(store: Store, head: SealHead | None) -> SealFingerprint:
    if head is not None:
        return head.anchor
    first = next(store.seals(), None)
    return SealFingerprint() if first is None else SealFingerprint(first.number - 1, first.before)


def _unsealed(store: Store, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Ids and ends of those of these operations that have ended, and got no seal meanwhile."""
    newer = {seal.operation for seal in store.seals()}
    for name in sorted(names):
        one = store.ended_operation(name)
        if name not in newer and one.operation is not None and (ended := one.operation.get("ended")):
            yield name, str(ended)


def check_file(path: Path, expected: ExpectedSeals = NONE_EXPECTED) -> SealReport:
    """Check an export, without ZooKeeper.

    :raises RefusedError: it cannot be read, or a line is no event.
    """
    check: SealCheck | None = None
    source, first_at = "", ""
    faults = _Faults()
    unsealed = _Unsealed()
    changes = ChangeCheck(expected.changes)
    for event in lines_of(path):
        source = source or event.source
        if isinstance(event, PlatformChangeEvent):
            faults.add(_of_change(event, source))
            faults.add(changes.faults([event.sealed]))
            continue
        one = event.sealed
        faults.add(_of_event(event, source))
        if one.seal is None:
            if check is None:
                unsealed.add(one)
            else:  # an export begins with them
                faults.add([_without_seal(one.id)])
            continue
        if check is None:
            anchor = SealFingerprint(one.seal.number - 1, one.seal.before)
            check = SealCheck(anchor if anchor.number else SealFingerprint(), expected.operations)
            first_at = one.seal.at
        faults.add(check.faults([one]))
    if check is None:
        raise unchanged(f"{path} has no sealed operation. Export a time in which operations have ended.")
    late = unsealed.since(first_at)
    faults.add(map(_without_seal, late))
    faults.add(check.end(None))
    faults.add(changes.end(None))
    earlier = unsealed.count - len(late)
    report = _changes_report(changes) if changes.checked or changes.earlier else None
    return SealReport(check.checked, check.anchor, check.newest, tuple(faults.found), earlier, None, report)


class _Faults:
    """The first `MAX_FAULTS`, however many there are: a file may have any number of lines."""

    def __init__(self) -> None:
        self.found: list[SealFault] = []

    def add(self, more: Iterable[SealFault]) -> None:
        # All of `more` is taken: the check goes on while it is.
        for fault in more:
            if len(self.found) < MAX_FAULTS:
                self.found.append(fault)


class _Unsealed:
    """Operations without a seal: their number, and those that ended last."""

    def __init__(self) -> None:
        self.count = 0
        self._last: list[tuple[str, str]] = []
        """A heap: end, id."""

    def add(self, one: SealedOperation) -> None:
        self.count += 1
        row = str((one.operation or {}).get("ended", "")), one.id
        if len(self._last) < MAX_FAULTS:
            heappush(self._last, row)
        else:
            heappushpop(self._last, row)

    def since(self, at: str) -> list[str]:
        return [name for ended, name in sorted(self._last) if ended >= at]


def _of_event(event: ReadEvent, source: str) -> Iterator[SealFault]:
    differs = [*event.differs, *(["source"] if event.source != source else [])]
    if differs:
        text = f"its event has another {listed(differs)} than its operation and its seal make"
        yield SealFault("changed", event.sealed.id, text)


def _of_change(event: PlatformChangeEvent, source: str) -> Iterator[SealFault]:
    differs = [*event.differs, *(["source"] if event.source != source else [])]
    if differs:
        yield SealFault("changed", event.sealed.name, f"its event has another {listed(differs)} than what was sealed")


def _without_seal(name: str) -> SealFault:
    return SealFault("unsealed", name, "it ended without a seal, under an earlier version or a damage")


def events_of(path: Path) -> Iterator[ReadEvent]:
    """The operations of an export; raises as `lines_of` does."""
    return (line for line in lines_of(path) if isinstance(line, ReadEvent))


def lines_of(path: Path) -> Iterator[ReadEvent | PlatformChangeEvent]:
    """All lines of an export.

    :raises RefusedError: it cannot be read, or a line is no event.
    """
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            while line := file.readline(MAX_LINE):
                number += 1
                if line.strip():
                    yield read_line(line)
    except OSError as error:
        raise unchanged(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise unchanged(f"{path}, line {number}: {error}.") from error


def seal_unsealed(environment: Environment) -> list[str]:
    """Seal operations that have ended without a seal, as they are now; returns their ids, the oldest first.

    :raises StoreError: the newest seal is damaged.
    """
    store = environment.store
    store.seal_head()
    ended = sorted((ended, name) for name, ended in _unsealed(store, store.operation_names()))
    return [name for _, name in ended if store.seal_ended(name, environment.now())]
