"""Recovers orphans: live processes resume operations whose executor has died and for which clients wait.

Each gateway fleet does so all the time (`orphan_recovery_process`); commands and tasks look once when they begin.
Several may do so at once: the first takes the operation over under a higher epoch, after which an executor that had
only stalled can write nothing.
"""

from dataclasses import dataclass, field

from ha_core.model import Operation, Topic
from ha_core.operations.engine.environment import Environment
from ha_core.plan.engine.abandoned import AT_ONCE_S, patience_s
from ha_core.plan.engine.revision import FINAL
from ha_core.store.errors import StoreError

LONGEST_PAUSE_S = 60.0
"""Between two attempts at an operation that cannot be ended."""


@dataclass
class _Orphan:
    """An operation without an executor."""

    epoch: int
    since: float
    state: str
    attempts: int
    patience_s: float | None


@dataclass
class OrphanRecovery:
    """Looks repeatedly, and remembers how long each operation has been without an executor."""

    environment: Environment
    _seen: dict[str, _Orphan] = field(default_factory=dict)
    _locks: frozenset[str] = frozenset()
    _running: tuple[str, ...] = ()

    def find(self) -> tuple[str, ...]:
        """Ids of the operations to be resumed now. Changes nothing.

        :raises StoreUnavailableError: ZooKeeper is away; earlier looks are forgotten.
        """
        try:
            alone = sorted(self._alone(), key=lambda left: left[0].id)
        except StoreError:
            self._seen.clear()
            raise
        now = self.environment.monotonic()
        self._seen = {operation.id: self._known(operation, epoch, now) for operation, epoch in alone}
        return tuple(
            name
            for name, seen in self._seen.items()
            if (patience := seen.patience_s) is not None
            and now - seen.since >= min(patience * 2**seen.attempts, max(LONGEST_PAUSE_S, patience))
        )

    def attempted(self, operation_id: str) -> None:
        """Note an attempt to resume it; if it does not end, the next attempt comes later."""
        seen = self._seen.get(operation_id)
        if seen is not None:
            seen.attempts, seen.since = seen.attempts + 1, self.environment.monotonic()

    @property
    def waiting(self) -> bool:
        """Whether there is an operation without executor that clients wait for."""
        return any(seen.patience_s is not None and seen.patience_s <= AT_ONCE_S for seen in self._seen.values())

    def _alone(self) -> list[tuple[Operation, int]]:
        """Operations that have locks and no executor, with their epochs."""
        store = self.environment.store
        locks = store.lock_keys()
        stored = [store.read(Operation, name) for name in self._running]
        operations = [known[0] for known in stored if known is not None]
        if locks != self._locks or any(operation.state in FINAL for operation in operations):
            operations = store.running()
            self._locks, self._running = locks, tuple(operation.id for operation in operations)
        holdings = ((operation, store.holding(operation.id)) for operation in operations)
        return [(operation, holding.epoch) for operation, holding in holdings if holding and not holding.held]

    def _known(self, operation: Operation, epoch: int, now: float) -> _Orphan:
        seen = self._seen.get(operation.id)
        if seen is None or (seen.epoch, seen.state) != (epoch, operation.state):
            # Under another epoch an executor has worked on it since.
            attempts = seen.attempts if seen is not None and seen.epoch == epoch else 0
            topics = self._topics(operation) if operation.state == "crossing" else {}
            return _Orphan(epoch, now, operation.state, attempts, patience_s(operation, topics))
        return seen

    def _topics(self, operation: Operation) -> dict[str, Topic]:
        """Read once: each change of these topics changes the operation's document, under its epoch, too."""
        stored = self.environment.pool.map(lambda name: self.environment.store.read(Topic, name), operation.moved)
        return {topic[0].name: topic[0] for topic in stored if topic is not None}
