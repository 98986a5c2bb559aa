"""Checks changes of the platform against their seals: a removed, rewritten or inserted one is named."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ha_core.model.change_seal import SealedChange
from ha_core.model.seal import NONE_BEFORE, SealFingerprint
from ha_core.plan.audit.seal_check import SealFault


@dataclass
class ChangeCheck:
    """Follows changes in the order of their times; `faults` yields what is wrong with each."""

    expected: SealFingerprint | None = None
    """A fingerprint that was kept elsewhere: the time of a change in microseconds, and its seal."""
    head: str | None = None
    """The newest seal by the database before the check; None: not known, as of a file."""
    checked: int = 0
    earlier: int = 0
    """Changes by earlier versions, before the first seal."""
    newest: SealFingerprint = field(default_factory=SealFingerprint)
    _met: bool = False
    _head_met: bool = False

    def faults(self, changes: Iterable[SealedChange]) -> Iterator[SealFault]:
        for one in changes:
            if one.seal is not None:
                yield from self._of_seal(one)
                self.checked += 1
                self.newest = one.fingerprint
                self._met |= self.newest == self.expected
                self._head_met |= self.newest.hash == self.head
            elif self.checked:
                yield SealFault("unsealed", one.name, "an earlier version made it, or it was put in between")
            else:
                self.earlier += 1

    def end(self, head: str | None = None) -> Iterator[SealFault]:
        """Faults that show at the end.

        :param head: the newest seal by the database after the check. If it is not the one before the check, changes
            came meanwhile.
        """
        grown = head != self.head and (self._head_met or self.head == NONE_BEFORE)
        if head is not None and not (self.newest.hash == head or grown):
            yield SealFault("head", "the platform", f"its newest seal should be {head} and is {self.newest.hash}")
        if self.expected is not None and not self._met:
            yield SealFault(
                "head",
                "the platform",
                f"the fingerprint {self.expected} is not among its changes: they were written anew after it was noted, "
                "or its change is not in what was checked",
            )

    def _of_seal(self, one: SealedChange) -> Iterator[SealFault]:
        if one.changed_us <= self.newest.number:
            yield SealFault("reordered", one.name, f"it stands after the change of {self.newest.number} µs")
        elif self.checked and one.before != self.newest.hash:
            yield SealFault("removed", one.name, "its seal does not follow the one before: a change between is gone")
        if one.hash != one.seal:
            yield SealFault("changed", one.name, "it is not what was sealed, or the change before it is gone")
