"""The beginning of an operation: its document and its locks; and the operations that stand in its way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from ha_core.model import HistoryEntry, MoveOperation, MoveRequest, MoveSet, Operation, UnreadableDocumentError
from ha_core.model.evidence import MoveEvidence
from ha_core.model.judgement import Judgement
from ha_core.model.move_request import UnreadPolicy
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import unchanged
from ha_core.operations.engine.journal import new_operation_id
from ha_core.operations.engine.report import BaseProposal
from ha_core.plan.engine.revision import FINAL
from ha_core.plan.move.closure import lock_keys
from ha_core.store.errors import ConflictError, LockedError, StoreError

JUDGED = "judged"
"""Key of the judgements in the detail of the history's first entry, the one that people saw first."""


class Startable(BaseModel):
    """A move that was judged, and begins as an operation."""

    model_config = ConfigDict(frozen=True)

    request: MoveRequest
    moves: MoveSet
    judged: Judgement | None = None
    """The judgement that the history keeps; None: not known."""

    @property
    @abstractmethod
    def operation_class(self) -> type[MoveOperation]:
        """The class of its kind."""

    @property
    def kind(self) -> str:
        return str(self.operation_class.model_fields["kind"].default)

    @property
    def evidence(self) -> MoveEvidence:
        """Results of its planning that its steps need."""
        return MoveEvidence()

    @property
    def lock_keys(self) -> Sequence[str]:
        return lock_keys(self.request, self.moves)

    @abstractmethod
    def judged_again(self, environment: Environment) -> Startable:
        """Judge the current state again: hours may have passed since the proposal was made.

        :raises RefusedError: a verdict is an error, or the move would now do something else.
        """

    def require_sound(self) -> None:
        """:raises RefusedError: the facts on which it was judged have an error."""

    @property
    def waits_for(self) -> Collection[str]:
        """Lock keys that are free in a moment: other batches of its run have them."""
        return ()

    @property
    def ends_first(self) -> tuple[Collection[str], UnreadPolicy, bool]:
        """Crossings to end first, because their origin is taken for dead; the policy for unread records; whether the
        origin may still answer."""
        return (), "wait", False

    @property
    def history_detail(self) -> dict[str, Any]:
        """Detail of the history's first entry, besides user and reason."""
        return {}


class StartableProposal(BaseProposal, Startable):
    """A proposal of one operation."""

    THINGS: ClassVar[str] = "topics"
    """Heading of its topics, for people."""

    @property
    @abstractmethod
    def title(self) -> str:
        """For people."""


def create_operation(
    environment: Environment, chosen: Startable, operation_id: str | None = None, shown: Judgement | None = None
) -> Operation:
    """Create the operation and change nothing else. An existing operation of this id is returned.

    :param shown: an earlier judgement, on which people decided.
    :raises RefusedError: another operation has locked something that it takes along.
    """
    require_sealable(environment)
    now = environment.now()
    operation_id = operation_id or new_operation_id(chosen.kind, now)
    request = chosen.request
    fields: dict[str, Any] = {
        "id": operation_id,
        "by": environment.by,
        **environment.provenance.model_dump(),
        "driver": environment.driver,
        "started": now,
        "reason": request.reason,
        "request": request,
        "moves": chosen.moves,
        "evidence": chosen.evidence,
    }
    operation = chosen.operation_class(**fields)
    both = (shown, chosen.judged) if shown is not chosen.judged else (shown,)
    detail = {
        "by": operation.by,
        "reason": operation.reason,
        **chosen.history_detail,
        JUDGED: [one.model_dump(mode="json") for one in both if one is not None],
    }
    first = HistoryEntry(at=now, epoch=0, step="start", outcome="done", detail=detail)
    try:
        environment.store.create_operation(operation, chosen.lock_keys, first)
    except LockedError as error:
        if error.unreadable:
            raise unchanged(str(error)) from error
        raise unchanged(
            f"{error.key} is locked by operation {error.operation_id} of {error.by} since "
            f"{error.since}. {way_out(error.operation_id, error.by)}"
        ) from error
    except ConflictError:
        if (found := environment.operation(operation.id)) is None:
            raise
        return found
    return operation


def require_sealable(environment: Environment) -> None:
    """:raises RefusedError: the history is strict, and an operation that begins now could not be sealed."""
    store = environment.store
    if store.strict_history() is None:
        return
    try:
        store.require_sealable()
    except (StoreError, UnreadableDocumentError) as error:
        raise unchanged(
            f"The history is strict, and this operation could not be sealed: {error}. `switchyard history verify` "
            "shows the damage; `switchyard history strict off` lets operations begin without a seal."
        ) from error


LOCK_PATIENCE_S, LOCK_PAUSE_S = 30.0, 0.2
"""Two batches may have groups of one user; each locks the user for about a second."""


def await_free(environment: Environment, keys: Collection[str]) -> None:
    """Wait until all of the locks are free, or `LOCK_PATIENCE_S` is over."""
    deadline = environment.monotonic() + LOCK_PATIENCE_S
    announced = False
    while environment.monotonic() < deadline:
        held = [lock for lock in environment.store.locks() if lock.key in keys]
        if not held:
            break
        if not announced:
            environment.say(f"{held[0].key} is locked by operation {held[0].operation}: waiting for it")
            announced = True
        environment.sleep(LOCK_PAUSE_S)


QUIET_S = 15.0
"""A live executor writes to the history more often than this, or holds the operation."""


def interrupted(environment: Environment, operation: Operation, silent_s: float) -> bool:
    """Whether the operation has lost its executor: it has not ended, does not wait for its logs, no live executor holds
    it, and its history is silent for `silent_s`. A held one may be silent for any time: the hold ends with the session.
    """
    if operation.state in FINAL | {"crossing"}:
        return False
    holding = environment.store.holding(operation.id)
    return not (holding and holding.held) and quiet_s(environment, operation) >= silent_s


def quiet_s(environment: Environment, operation: Operation) -> float:
    """Seconds since the last entry of the operation's history."""
    history = environment.store.history(operation.id, newest=1)
    return environment.age_s(history[-1].at if history else operation.started)


def way_out(operation_id: str, by: str = "") -> str:
    """The way out when an operation stands in the way."""
    whose = "its run is over" if by.startswith("airflow:") else "its executor is dead"
    return (
        f"Wait for its end (`switchyard history {operation_id}`). If {whose}: "
        f"`switchyard resume {operation_id}` to continue it, `switchyard undo {operation_id}` to undo it."
    )
