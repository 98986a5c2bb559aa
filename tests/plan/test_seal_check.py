"""Every way to tamper with sealed operations is noticed: a planted fault for each check."""

from collections.abc import Callable
from typing import Any

import pytest

from ha_core.model.seal import Seal, SealedOperation, SealFingerprint, SealHead, digest_of
from ha_core.plan.audit.seal_check import SealCheck, SealFault

START = SealFingerprint()


def chain(*names: str, after: SealFingerprint = START) -> list[SealedOperation]:
    made = []
    for name in names:
        operation = {"id": name, "result": f"{name} is done"}
        history: list[dict[str, Any]] = [{"step": "start"}, {"step": "cut", "ms": 1.5}]
        digest = digest_of(operation, history)
        seal = Seal(
            number=after.number + 1, operation=name, at="t", entries=len(history), digest=digest, before=after.hash
        )
        after = seal.fingerprint
        made.append(SealedOperation(name, operation, history, seal))
    return made


def faults(
    sealed: list[SealedOperation],
    head: SealHead | None = None,
    anchor: SealFingerprint = START,
    expected: SealFingerprint | None = None,
) -> list[SealFault]:
    check = SealCheck(anchor, expected)
    return [*check.faults(sealed), *check.end(head)]


def head(sealed: list[SealedOperation]) -> SealHead:
    seal = sealed[-1].seal
    assert seal is not None
    return SealHead(number=seal.number, hash=seal.hash)


def content(one: SealedOperation, **changes: Any) -> SealedOperation:
    return one._replace(operation={**(one.operation or {}), **changes})


def sealed_anew(one: SealedOperation, **changes: Any) -> SealedOperation:
    """A forger changes the content, and the digest in its seal."""
    changed = content(one, **changes)
    assert changed.operation is not None
    assert changed.seal is not None
    return changed._replace(seal=changed.seal.changed(digest=digest_of(changed.operation, changed.history)))


def test_untouched_operations_have_no_fault() -> None:
    sealed = chain("a", "b", "c")

    assert faults(sealed, head(sealed)) == []


Tamper = Callable[[list[SealedOperation]], list[SealedOperation]]
PLANTED: dict[str, tuple[Tamper, set[str], str]] = {
    "a changed result": (lambda s: [s[0], content(s[1], result="x"), s[2]], {"changed"}, "b"),
    "a changed entry": (
        lambda s: [s[0]._replace(history=[{"step": "start"}, {"step": "x"}]), *s[1:]],
        {"changed"},
        "a",
    ),
    "an added field": (lambda s: [s[0], s[1], content(s[2], asked_by="mallory")], {"changed"}, "c"),
    "a removed entry": (lambda s: [s[0]._replace(history=s[0].history[:1]), *s[1:]], {"changed"}, "a"),
    "an entry added after the end": (
        lambda s: [s[0]._replace(history=[*s[0].history, {"step": "x"}]), *s[1:]],
        {"added"},
        "a",
    ),
    "a removed document": (lambda s: [s[0], s[1]._replace(operation=None), s[2]], {"removed"}, "b"),
    "a removed operation with its seal": (lambda s: [s[0], s[2]], {"removed"}, "seal 3"),
    "the newest removed": (lambda s: s[:2], {"head"}, "seal 3"),
    "two exchanged": (lambda s: [s[1], s[0], s[2]], {"removed", "reordered"}, "seal 1"),
    "a document in another's place": (
        lambda s: [s[0], s[1]._replace(operation=s[0].operation, history=s[0].history), s[2]],
        {"forged", "changed"},
        "b",
    ),
    "one sealed anew": (lambda s: [s[0], sealed_anew(s[1], result="x"), s[2]], {"forged"}, "seal 3"),
    "the newest sealed anew": (lambda s: [*s[:2], sealed_anew(s[2], result="x")], {"head"}, "seal 3"),
    "one appended": (lambda s: [*s, *chain("d", after=s[2].seal.fingerprint)], {"head"}, "seal 3"),  # type: ignore[union-attr]
    "one sealed twice": (
        lambda s: [*s[:2], s[1]._replace(seal=s[1].seal.changed(number=3, before=s[1].seal.hash))],  # type: ignore[union-attr]
        {"forged", "head"},
        "seal 3",
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_tampering_is_noticed(what: str) -> None:
    tamper, kinds, about = PLANTED[what]
    sealed = chain("a", "b", "c")

    found = faults(tamper(sealed), head(sealed))

    assert {fault.kind for fault in found} == kinds
    assert about in {fault.about for fault in found}


def test_a_history_that_was_sealed_anew_as_a_whole_fails_at_a_checkpoint_kept_elsewhere() -> None:
    # Given a fingerprint, and a forger who writes all seals anew, and the newest
    kept = chain("a", "b")[-1].seal
    assert kept is not None
    forged = chain("a", "x", "c")
    # Then only the fingerprint shows it
    assert faults(forged, head(forged)) == []
    assert [fault.kind for fault in faults(forged, head(forged), expected=kept.fingerprint)] == ["head"]
    honest = chain("a", "b", "c")
    assert faults(honest, head(honest), expected=kept.fingerprint) == []


def test_trimmed_operations_leave_their_last_hash_as_the_anchor() -> None:
    sealed = chain("a", "b", "c")
    anchor = sealed[0].seal
    assert anchor is not None

    assert faults(sealed[1:], head(sealed), anchor.fingerprint) == []
    # And one that is removed after the anchor is noticed
    assert [fault.kind for fault in faults(sealed[2:], head(sealed), anchor.fingerprint)] == ["removed"]
    # And so is another anchor
    other = SealFingerprint(1, "0" * 64)
    assert [fault.kind for fault in faults(sealed[1:], head(sealed), other)] == ["forged"]


def test_a_checkpoint_is_read_as_it_is_written() -> None:
    seal = chain("a")[0].seal
    assert seal is not None

    assert SealFingerprint.read(str(seal.fingerprint)) == seal.fingerprint
    for wrong in ("", "1", "x:" + "0" * 64, "1:abc", "1:" + "g" * 64):
        with pytest.raises(ValueError, match="NUMBER:HASH"):
            SealFingerprint.read(wrong)
