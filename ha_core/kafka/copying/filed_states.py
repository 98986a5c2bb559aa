"""The states of all partitions of a copy loop, filed so that a step looks only at those that wait or stand still."""

from collections.abc import Mapping

from ha_core.kafka.copying.states import (
    AwaitingTakeover,
    CopyLane,
    RefusedByCluster,
    State,
    StoppedCopy,
    not_copied,
)
from ha_core.kafka.copying.statuses import CopyStatus
from ha_core.mirror.lag import LagTracker
from ha_core.mirror.notes import CopyId


class FiledStates:
    """Changed by the loop's thread only; `lanes`, `statuses` and `standing` may be called from any thread.

    :ivar waiting: those that are to be taken over.
    :ivar stopped: those that need an operator, or are copied elsewhere.
    :ivar look_at: earliest time at which a waiting partition may be due.
    """

    def __init__(self) -> None:
        self.waiting: dict[CopyId, AwaitingTakeover | RefusedByCluster] = {}
        self.stopped: dict[CopyId, StoppedCopy] = {}
        self.look_at = 0.0
        self._states: dict[CopyId, State] = {}

    def get(self, id_: CopyId) -> State | None:
        return self._states.get(id_)

    def become(self, id_: CopyId, state: State) -> None:
        self._states[id_] = state
        self.waiting.pop(id_, None)
        self.stopped.pop(id_, None)
        if isinstance(state, AwaitingTakeover | RefusedByCluster):
            self.waiting[id_] = state
            self.look_at = 0.0
        elif isinstance(state, StoppedCopy):
            self.stopped[id_] = state

    def drop(self, id_: CopyId) -> State | None:
        self.waiting.pop(id_, None)
        self.stopped.pop(id_, None)
        return self._states.pop(id_, None)

    def lanes(self) -> dict[CopyId, CopyLane]:
        """Partitions that are being copied."""
        return {id_: state for id_, state in list(self._states.items()) if isinstance(state, CopyLane)}

    def statuses(self, trackers: Mapping[CopyId, LagTracker], now: float, now_ms: int) -> dict[CopyId, CopyStatus]:
        """:param now_ms: wall-clock time."""
        found = dict[CopyId, CopyStatus]()
        for id_, state in list(self._states.items()):
            if isinstance(state, CopyLane):
                found[id_] = state.status(now, now_ms)
            else:
                found[id_] = not_copied(state, trackers.get(id_) or LagTracker(), now)
        return found

    def standing(self, trackers: Mapping[CopyId, LagTracker], now: float, now_ms: int) -> dict[CopyId, CopyStatus]:
        """Status of those partitions that are not being copied, or only with trouble. Few, as a rule."""
        found = dict[CopyId, CopyStatus]()
        for id_, state in list(self._states.items()):
            if not isinstance(state, CopyLane):
                found[id_] = not_copied(state, trackers.get(id_) or LagTracker(), now)
            elif state.trouble or state.refused:
                status = state.status(now, now_ms)
                if status.state != "copying":
                    found[id_] = status
        return found
