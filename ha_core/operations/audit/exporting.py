"""Ended operations of a time as events, in the order of their seals; equal states give equal bytes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ha_core.model.seal import SealedOperation
from ha_core.operations.engine.errors import unchanged
from ha_core.store.store import Store


def moment(text: str, option: str) -> datetime:
    """A date or a time; without an offset it is UTC.

    :raises RefusedError: it is neither.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError as error:
        raise unchanged(
            f"{option} {text!r} is no time. Write 2026-11-30, or 2026-11-30T10:00:00Z (ISO 8601)."
        ) from error
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def exported(store: Store, since: datetime | None = None, until: datetime | None = None) -> Iterator[SealedOperation]:
    """Operations that ended from `since` on and before `until`: first those without a seal, then all between the first
    and the last seal of that time, so that their hashes are whole."""
    yield from _without_seal(store, since, until)
    numbers = [seal.number for seal in store.seals() if within(seal.at, since, until)]
    if numbers:
        yield from store.sealed_operations(min(numbers) - 1, max(numbers))


def _without_seal(store: Store, since: datetime | None, until: datetime | None) -> Iterator[SealedOperation]:
    sealed = {seal.operation for seal in store.seals()}
    found: list[tuple[str, str]] = []
    for name in store.operation_names() - sealed:
        ended = (store.ended_operation(name).operation or {}).get("ended")
        if ended and within(str(ended), since, until):
            found.append((str(ended), name))
    yield from (store.ended_operation(name) for _, name in sorted(found))


def within(at: str, since: datetime | None, until: datetime | None) -> bool:
    """Whether `at` is not before `since`, and before `until`; None: there is no such bound."""
    try:
        read = datetime.fromisoformat(at)
    except ValueError:
        return True  # whatever its time is, it is shown
    read = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    return (since is None or read >= since) and (until is None or read < until)
