"""Deadlines: a fence that is older than a second, and a move away from a dead cluster that takes longer than its RTO.

While a task works on an operation, a thread beside it looks at the operation's age: Airflow's own deadlines are for
runs, and its scheduler looks at them every few seconds. The run of *Fail over a cluster* has one of these besides,
which is seen even if its worker has died.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference

from ha_core.hooks.airflow_names import conf

if TYPE_CHECKING:
    from ha_core.model import Operation

SECTION = "switchyard"
FENCE_S, RTO_S = 1.0, 60.0
"""Deadlines without a setting: `fence_deadline_s` and `rto_s` in section `[switchyard]` of Airflow's configuration."""
LOOK_EVERY_S = 0.25
MISSED = "deadlines_missed"
"""XCom key of the deadlines that a task has missed, in words."""
ENDED = frozenset({"succeeded", "undone", "failed"})
log = logging.getLogger("switchyard.airflow")


def fence_deadline_s() -> float:
    return float(conf.getfloat(SECTION, "fence_deadline_s", fallback=FENCE_S))


def rto_s() -> float:
    """The longest time in which a cluster that died may be left."""
    return float(conf.getfloat(SECTION, "rto_s", fallback=RTO_S))


class Watch:
    """Looks at one operation while a task works on it, and raises an alarm once for each deadline that it misses.

    :param read: the operation as it is stored; None: it is not there.
    :ivar missed: the alarms.
    """

    def __init__(
        self,
        read: Callable[[], Operation | None],
        fence_s: float,
        rto_s: float,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._read, self._fence_s, self._rto_s, self._now = read, fence_s, rto_s, now
        self._fenced_since: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
        self._alarmed: set[str] = set()
        self.missed: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(1)

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                operation = self._read()
            except Exception as error:  # the task itself reports that ZooKeeper is away
                log.debug("deadlines cannot be looked at: %s", error)
                continue
            if operation is not None:
                self.look(operation, time.monotonic())

    def look(self, operation: Operation, at_s: float) -> None:
        """:param at_s: the monotonic clock."""
        if operation.state != "fenced":
            self._fenced_since = None
        elif self._fenced_since is None:
            self._fenced_since = at_s
        elif at_s - self._fenced_since > self._fence_s:
            self._alarm(
                "fence",
                f"A FENCE IS OLDER THAN {self._fence_s:g} s: operation {operation.id} fences what it moves, and "
                "clients wait. `switchyard status` shows what it waits for",
            )
        if operation.forced and operation.state not in ENDED:
            age_s = (self._now() - datetime.fromisoformat(operation.started)).total_seconds()
            if age_s > self._rto_s:
                self._alarm(
                    "rto",
                    f"A MOVE IS OLDER THAN ITS RTO of {self._rto_s:g} s: operation {operation.id} leaves a dead "
                    f"cluster, and is {operation.state}. `switchyard history {operation.id}` shows its steps",
                )

    def _alarm(self, which: str, words: str) -> None:
        if which not in self._alarmed:
            self._alarmed.add(which)
            self.missed.append(words)
            log.critical("%s.", words)


async def run_is_late(**kwargs: Any) -> None:
    """Callback of Airflow's deadline: the triggerer calls it, and its log has the alarm."""
    run = (kwargs.get("context") or {}).get("dag_run") or {}
    log.critical(
        "A MOVE IS OLDER THAN ITS RTO: the run %s/%s was triggered %s s ago and has not ended.",
        run.get("dag_id", "?"),
        run.get("dag_run_id", "?"),
        kwargs.get("rto_s", "?"),
    )


def run_deadline() -> Any:
    """Airflow's deadline of a run that begins at once: from its trigger to its end."""
    seconds = rto_s()
    callback = AsyncCallback(f"{__name__}.{run_is_late.__name__}", {"rto_s": seconds})
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, timedelta(seconds=seconds), callback)
