"""The record of one operation as it runs: its document, its history, and the milliseconds of every step."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from ha_core.kafka.admin import Admin
from ha_core.model import HistoryEntry, MoveOperation, MoveRequest, MoveSet, Operation
from ha_core.model.operation import OperationState, Outcome
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError, RefusedError, unchanged
from ha_core.plan.engine.revision import FINAL, entering
from ha_core.store.errors import StillHeldError, UnknownOperationError


def new_operation_id(kind: str, now: str) -> str:
    """`KIND-YYYYMMDD-HHMMSS-XXXX`: sorts by time, and is unique."""
    return f"{kind}-{datetime.fromisoformat(now):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:4]}"


class Lap(NamedTuple):
    """A step that ended while the history could not be written."""

    step: str
    outcome: Outcome
    ms: float
    detail: dict[str, Any]
    at: str
    """When it ended, which is not when it was written."""


ASKED_FOR = "asked for by the operator"
"""The reason of an undo that no failure caused."""


AnyOperation_co = TypeVar("AnyOperation_co", bound=Operation, covariant=True)


class Journal(Generic[AnyOperation_co]):
    """Writes what happens to one operation, under the epoch of the executor that holds it."""

    complete: Callable[[str], Any]
    """Brings another operation to its end, where a step needs that, and returns its report. Set by `holding`."""
    asked_for: str = ASKED_FOR
    """The reason of an undo that an operator asks for, with the operator's own words if there are some."""

    def __init__(self, environment: Environment, operation: AnyOperation_co, epoch: int) -> None:
        self.environment = environment
        self.operation = operation
        self.epoch = epoch
        self.pending: list[Lap] = []
        """Steps after a fence, written when it is lifted: an entry is a write to ZooKeeper's disk, and clients would
        wait."""
        self._ours_at = float("-inf")

    def append(
        self,
        step: str,
        outcome: Outcome,
        ms: float | None = None,
        detail: dict[str, Any] | None = None,
        at: str | None = None,
    ) -> None:
        """:param at: when it happened, if that was earlier."""
        entry = HistoryEntry(
            at=at or self.environment.now(),
            epoch=self.epoch,
            step=step,
            outcome=outcome,
            ms=None if ms is None else round(ms, 1),
            by=None if self.environment.by == self.operation.by else self.environment.by,
            detail=detail or {},
        )
        self.environment.store.append_history(self.operation.id, self.epoch, entry)

    def update(self, **changes: Any) -> None:
        """Write the operation's document with `changes`."""
        self.operation = self.operation.model_copy(update=changes)
        self.environment.store.update_operation(self.operation, self.epoch)

    def note(self, state: OperationState | None = None, **found: Any) -> None:
        """Keep what later steps need, each in its field of the operation's evidence."""
        noted = self.operation.noting(**found)
        self.update(evidence=noted.evidence, state=entering(noted, state or noted.state).state)

    def cut_revision(self) -> int:
        """The revision of the cut. If the executor died between cut and note, the newest one, which contains the
        cut."""
        if not self.operation.revision:
            self.update(revision=self.environment.store.load().revision)
        return self.operation.revision

    def still_ours(self, for_s: float = 0.0) -> None:
        """Check before an effect that no write to ZooKeeper fences, as a request to a cluster; again after `for_s`.

        :raises FencedOffError: another executor has taken the operation over.
        """
        now = self.environment.monotonic()
        if now - self._ours_at >= for_s:
            self.environment.store.require_epoch(self.operation.id, self.epoch)
            self._ours_at = now

    @property
    def request(self: Journal[MoveOperation]) -> MoveRequest:
        return self.operation.request

    @property
    def moves(self: Journal[MoveOperation]) -> MoveSet:
        return self.operation.moves

    @property
    def origin(self: Journal[MoveOperation]) -> Admin:
        """:raises RefusedError: the cluster is not registered any more, or its security profile is not known here."""
        return admin_of(self.environment, self.request.origin)

    @property
    def target(self: Journal[MoveOperation]) -> Admin:
        """As `origin`."""
        return admin_of(self.environment, self.request.target)

    @contextmanager
    def lap(self, name: str) -> Iterator[dict[str, Any]]:
        """As `step`, after a fence: reported at once, written to the history later."""
        detail: dict[str, Any] = {}
        before = self.environment.monotonic()
        try:
            yield detail
        finally:
            ms = self.environment.ms_since(before)
            self.pending.append(Lap(name, "done", ms, detail, self.environment.now()))
            self.environment.say(f"{name} {ms:.1f} ms{_words(detail)}")

    def write_pending(self) -> None:
        """Write pending steps, each with the time at which it happened."""
        pending, self.pending = self.pending, []
        for lap in pending:
            self.append(*lap)

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Record `name` as started and as done or failed; the yielded dictionary becomes the entry's detail."""
        self.append(name, "started")
        detail: dict[str, Any] = {}
        environment, before = self.environment, self.environment.monotonic()
        try:
            yield detail
        except Exception as error:
            ms = environment.ms_since(before)
            environment.say(f"{name} failed after {ms:.1f} ms: {error}")
            self.append(name, "failed", ms, {**detail, **why_failed(error)})
            raise
        ms = environment.ms_since(before)
        self.append(name, "done", ms, detail)
        environment.say(f"{name} {ms:.1f} ms{_words(detail)}")

    def finish(self, state: Literal["succeeded", "undone", "failed"], result: str) -> None:
        """Write the final state, then give the locks back. Safe to repeat."""
        if self.operation.state not in FINAL:
            self.update(state=entering(self.operation, state).state, ended=self.environment.now(), result=result)
        self.release()

    def release(self) -> None:
        """Give the locks back, and seal the operation. Safe to repeat."""
        self.environment.store.release_locks(self.operation.id, self.epoch, self.environment.now())


@contextmanager
def holding(
    environment: Environment, operation_id: str, complete: Callable[[Environment, str], Any]
) -> Iterator[Journal[Operation]]:
    """Take the operation over under a higher epoch and hold it; a holder that died is waited for.

    :raises RefusedError: no such operation, or a live executor works on it.
    """
    store = environment.store
    wait_s = environment.session_timeout_s * 1.5 + 1
    try:
        try:
            epoch = store.take_over(operation_id)
        except StillHeldError as error:
            environment.say(f"{error}. Waiting up to {wait_s:.0f} s, in case that process is dead.")
            epoch = store.take_over(operation_id, wait_s=wait_s)
    except StillHeldError as error:
        raise unchanged(f"{error}.") from error
    except UnknownOperationError as error:
        raise RefusedError(f"{error}.") from error
    with store.hold(operation_id, epoch):
        # Read under the hold: what the last holder wrote before it lost its epoch is in.
        found = store.read(Operation, operation_id)
        if found is None:
            raise unchanged(f"Operation {operation_id} vanished while it was taken over.")
        journal = Journal(environment, found[0], epoch)
        journal.complete = partial(complete, environment)
        yield journal


def why_failed(error: BaseException) -> dict[str, Any]:
    """The error as a history entry's detail."""
    verdicts = [asdict(verdict) for verdict in error.verdicts] if isinstance(error, MoveError) else []
    return {"error": str(error), **({"verdicts": verdicts} if verdicts else {})}


def _words(detail: dict[str, Any]) -> str:
    plain = ", ".join(f"{key} {value}" for key, value in detail.items() if isinstance(value, str | int | float))
    return f" ({plain})" if plain else ""
