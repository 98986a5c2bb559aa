"""Files the partitions of a copy loop by what they need of the source, so that a step looks only at those that need
something. With ten thousand partitions, a look at each of them every few milliseconds would take a whole core.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from ha_core.kafka.copying.buffered import BufferedBytes, held_for
from ha_core.kafka.copying.connections import ConnectionUse, Line
from ha_core.kafka.copying.sessions import SourceSession
from ha_core.kafka.copying.states import CopyLane

_SEEKING = None
"""In place of a line: the leader is not known."""


class SourceLanes:
    """
    :ivar seeking: partitions without a known leader.
    :ivar sessions: broker → the session of its partitions that have nothing new.
    """

    def __init__(self) -> None:
        self.seeking: dict[CopyLane, None] = {}
        self.sessions: dict[int, SourceSession] = {}
        self._busy: dict[int, dict[CopyLane, None]] = {}
        """In order of service, the most recently served partition at the end."""
        self._filed: dict[CopyLane, Line | None] = {}
        self._holding: dict[CopyLane, None] = {}
        """Partitions that held bytes or slots when they were last looked at; all others hold none."""
        self._targets: Counter[int] = Counter()

    def __contains__(self, lane: CopyLane) -> bool:
        return lane in self._filed

    def __iter__(self) -> Iterator[CopyLane]:
        return iter(self._filed)

    def __len__(self) -> int:
        return len(self._filed)

    @property
    def targets(self) -> Collection[int]:
        """Brokers of the target with partitions here."""
        return self._targets.keys()

    @property
    def busy(self) -> Mapping[int, Mapping[CopyLane, None]]:
        """Broker → its partitions that have more to copy."""
        return self._busy

    def add(self, lane: CopyLane) -> None:
        if lane not in self._filed:
            self._targets[lane.target_node] += 1
        self.file(lane)

    def drop(self, lane: CopyLane) -> None:
        if lane not in self._filed:
            return
        self._take_out(lane, self._filed.pop(lane))
        self._holding.pop(lane, None)
        self._targets[lane.target_node] -= 1
        if not self._targets[lane.target_node]:
            del self._targets[lane.target_node]

    def file(self, lane: CopyLane) -> None:
        """Files a partition anew, after its leader, its lag or its next offset changed."""
        line = _SEEKING
        if lane.leader is not None:
            line = Line(ConnectionUse.BUSY if lane.lags else ConnectionUse.IDLE, lane.leader.node)
        before = self._filed.get(lane, _SEEKING)
        if before != line:
            self._take_out(lane, before)
        self._filed[lane] = line
        if line is _SEEKING:
            self.seeking[lane] = None
        elif line.channel is ConnectionUse.BUSY:
            self._busy.setdefault(line.node, {})[lane] = None
        else:
            self.sessions.setdefault(line.node, SourceSession()).want(lane)
        if lane.partition.held or not lane.partition.has_slots:
            self._holding[lane] = None

    def served(self, lane: CopyLane) -> None:
        """The partition got records, or a turn without any: others have theirs first. One that has left since is not
        noted again."""
        if lane not in self._filed:
            return
        self._holding[lane] = None
        busy = None if lane.leader is None else self._busy.get(lane.leader.node)
        if busy is not None and lane in busy:
            del busy[lane]
            busy[lane] = None

    def held(self) -> BufferedBytes:
        """Bytes held, and the partitions that hold some."""
        for lane in [lane for lane in self._holding if not lane.partition.held and lane.partition.has_slots]:
            del self._holding[lane]
            self._resume(lane)
        return held_for(self._holding, self._targets)

    def pause_holding(self, room: int) -> None:
        """Takes partitions out of their sessions that must get nothing more for now; `held` brings them back."""
        for lane in self._holding:
            line = self._filed[lane]
            if line is None or line.channel is ConnectionUse.BUSY:
                continue
            if lane.partition.held >= room or not lane.partition.has_slots:
                self.sessions[line.node].leave(lane)
            else:
                self._resume(lane)

    def _resume(self, lane: CopyLane) -> None:
        line = self._filed[lane]
        if line is not None and line.channel is ConnectionUse.IDLE and lane not in self.sessions[line.node].wanted:
            self.sessions[line.node].want(lane)

    def _take_out(self, lane: CopyLane, line: Line | None) -> None:
        if line is _SEEKING:
            self.seeking.pop(lane, None)
        elif line.channel is ConnectionUse.BUSY:
            self._busy[line.node].pop(lane, None)
        else:
            self.sessions[line.node].leave(lane)
