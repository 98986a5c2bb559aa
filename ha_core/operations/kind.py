"""What every kind of operation is: a class that says how one goes on, and how it is taken back (`kinds.KINDS`).

Locks, epochs and reports, which hold for all of them, are the engine's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from typing import Any, ClassVar

from ha_core.model.operation import Unread
from ha_core.operations.errors import RefusedError
from ha_core.operations.journal import ASKED_FOR, Journal
from ha_core.operations.report import Report
from ha_core.plan.revision import FINAL

Work = Generator[str, Report, None]
"""Yields the id of another operation that has to be brought to its end first, and is sent its report."""


class Kind(ABC):
    """It keeps nothing: all that it knows of an operation is in the state."""

    names: ClassVar[tuple[str, ...]]
    """The kinds of operations that it is of."""
    tasks: ClassVar[Mapping[Any, tuple[str, ...]]] = {}
    """The tasks that a run of Airflow makes of one, with their steps."""

    @abstractmethod
    def advance(self, journal: Journal[Any], at_once: bool = False) -> Work:
        """Go on by what stands in the state, to the end or until it has to wait for others.

        :param at_once: end now, behind a fence, what would end by itself.
        """

    @abstractmethod
    def take_back(self, journal: Journal[Any], why: str) -> bool:
        """Take back what was done, and end the operation as `undone`. False: there is only forward."""

    def undo(self, journal: Journal[Any]) -> None:
        """Take it back as an operator asks for it; of one that has ended, only the locks.

        :raises RefusedError: there is no way back.
        """
        operation = journal.operation
        if operation.state in {"cut", "succeeded"}:
            route = operation.route
            back = f" with --from {route[1]} --to {route[0]}" if route is not None else ""
            raise RefusedError(
                f"Operation {operation.id} has cut over in revision {operation.revision}: from there it only goes "
                f"forward. `switchyard resume {operation.id}` ends it; the way back is a new `switchyard switch`{back}."
            )
        if operation.state in FINAL:
            journal.release()
        else:
            self.take_back(journal, ASKED_FOR)

    def release(self, journal: Journal[Any]) -> bool:
        """Leave neither a fence nor a lock, by the way back. False: it has to go on, as `advance` does."""
        return journal.operation.state != "cut" and self.take_back(journal, "released before its cut")

    def run_task(self, journal: Journal[Any], task: str) -> Work:
        """One of its `tasks`."""
        raise NotImplementedError

    def end_without_origin(self, journal: Journal[Any], unread: Unread, force: bool) -> None:
        """End what crosses over although its origin is dead. :raises RefusedError: nothing does."""
        operation = journal.operation
        raise RefusedError(
            f"Operation {operation.id} is a {operation.kind} and crosses nothing: leave --without-origin out."
        )
