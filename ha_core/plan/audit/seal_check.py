"""Checks ended operations against their seals: a removed, changed, reordered or forged one is named."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ha_core.model.seal import SealedOperation, SealFingerprint, SealHead, digest_of
from ha_core.plan.facts.verdict import amount

SealFaultKind = Literal["removed", "changed", "added", "reordered", "forged", "unsealed", "head"]
"""`removed`: a seal or a sealed operation is gone. `changed`: its content is not what was sealed. `added`: its history
has grown after it was sealed. `reordered`: seals are not in their order. `forged`: a seal does not follow the one
before, or two seals name one operation. `unsealed`: an operation ended without a seal. `head`: the newest seal is not
the one that is known."""


@dataclass(frozen=True, slots=True)
class SealFault:
    kind: SealFaultKind
    about: str
    text: str


@dataclass
class SealCheck:
    """Follows sealed operations in the order in which they are stored; `faults` yields what is wrong with each."""

    anchor: SealFingerprint
    """The seal before the first one that is checked."""
    expected: SealFingerprint | None = None
    """A fingerprint that was kept elsewhere."""
    checked: int = 0
    newest: SealFingerprint = field(init=False)
    """The last seal that was followed."""
    _operations: dict[str, int] = field(default_factory=dict)
    _met: bool = False

    def __post_init__(self) -> None:
        self.newest = self.anchor
        self._meet(self.anchor)

    def faults(self, sealed: Iterable[SealedOperation]) -> Iterator[SealFault]:
        for one in sealed:
            if one.seal is not None:
                yield from self._of_seal(one)
                yield from self._of_content(one)
                self.checked += 1
                self.newest = one.seal.fingerprint
                self._meet(self.newest)

    def end(self, head: SealHead | None) -> Iterator[SealFault]:
        """Faults that show at the end.

        :param head: the newest seal as stored; None: not known, as of a file.
        """
        if head is not None and head.newest != self.newest:
            yield SealFault(
                "head",
                f"seal {head.number}",
                f"the newest seal should be {head.newest} and is {self.newest}: newer ones are gone, or one was added",
            )
        if self.expected is not None and not self._met:
            yield SealFault(
                "head",
                f"seal {self.expected.number}",
                f"the fingerprint {self.expected} is not among the seals {self.anchor.number} to {self.newest.number}: "
                "the history was written anew after it was noted, or its seal is not in what was checked",
            )

    def _of_seal(self, one: SealedOperation) -> Iterator[SealFault]:
        seal, due = one.seal, self.newest.number + 1
        assert seal is not None
        name = f"seal {seal.number}"
        if seal.number < due:
            yield SealFault("reordered", name, f"it stands after seal {self.newest.number}")
        elif seal.number > due:
            gone = seal.number - due
            what = f"seal {due} is" if gone == 1 else f"seals {due} to {seal.number - 1} are"
            yield SealFault("removed", name, f"{what} gone, with the {amount(gone, 'operation')}")
        elif seal.before != self.newest.hash:
            text = f"it does not follow seal {self.newest.number}: one of the two was written anew"
            yield SealFault("forged", name, text)
        if (other := self._operations.setdefault(seal.operation, seal.number)) != seal.number:
            yield SealFault("forged", name, f"it seals {seal.operation} a second time, after seal {other}")

    def _of_content(self, one: SealedOperation) -> Iterator[SealFault]:
        seal, content, history = one.seal, one.operation, one.history
        assert seal is not None
        if content is None:
            yield SealFault("removed", seal.operation, f"its document is gone, or is no JSON (seal {seal.number})")
            return
        if content.get("id") != seal.operation:
            yield SealFault(
                "forged", seal.operation, f"its document is that of {content.get('id')} (seal {seal.number})"
            )
        if len(history) > seal.entries:
            more = f"{seal.entries} entries were sealed, and it has {len(history)}"
            yield SealFault("added", seal.operation, f"its history has grown after its end: {more}")
        if digest_of(content, history[: seal.entries]) != seal.digest:
            yield SealFault("changed", seal.operation, f"its document or history is not what seal {seal.number} has")

    def _meet(self, fingerprint: SealFingerprint) -> None:
        self._met = self._met or fingerprint == self.expected
