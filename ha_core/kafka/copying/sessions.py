"""The fetch session (KIP-227) of the partitions of one broker that have nothing new. No I/O.

The broker remembers the partitions of a session. A request names those that came, changed or left, and an answer has
those with records, an error, or another high watermark or log start. So thousands of partitions without news cost a few
bytes each way. A partition that an answer leaves out is unchanged: `Heard` tells when that was last so.

A partition that is new in a session is in the answer in any case. So one that leaves and comes back is forgotten by one
request and named by the next: the broker removes what a request forgets after it has added what it names.

Whenever the broker may remember something else than this object, the session starts again with all its partitions:
after a lost connection, if the broker does not know the session, and now and then without a reason.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ha_core.kafka.copying.states import CopyLane, Heard
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ErrorCode

_NO_ID = bytes(16)
SESSIONLESS = 0, -1
"""Session id and epoch of a request without a session."""
_LAST_EPOCH = (1 << 31) - 1
_RESTART_S = 120.0
"""A partition that a broker lost from its session, against the protocol, would stand still for at most this time."""
SESSION_ERRORS = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}


class AskedPart(NamedTuple):
    """A partition as a request names it.

    :ivar topic_id: in hexadecimal; "": none.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    last_epoch: int
    leader_epoch: int
    max_bytes: int

    @property
    def key(self) -> Partition:
        return self.topic, self.partition


class SessionRequest(NamedTuple):
    """
    :ivar session: its id, and the epoch of this request.
    :ivar parts: all partitions, or those that came or changed.
    :ivar forgotten: partitions that left.
    :ivar by_name: whether a partition has no topic id.
    :ivar more: whether partitions wait for the next request.
    """

    session: tuple[int, int]
    parts: list[AskedPart]
    forgotten: list[AskedPart]
    by_name: bool
    more: bool = False

    @property
    def topics(self) -> list[dict[str, Any]]:
        """As in a request."""
        return _by_topic(self.parts, _entry)

    @property
    def forgotten_topics(self) -> list[dict[str, Any]]:
        return _by_topic(self.forgotten, lambda part: part.partition)


class SourceSession:
    """
    :ivar wanted: partitions to fetch by it, as `want` and `leave` say.
    :ivar heard: of the present session; a partition refers to it after its first answer.
    :ivar topics: topic id → name, of all partitions that it named.
    """

    def __init__(self) -> None:
        self.wanted: dict[CopyLane, None] = {}
        self.heard = Heard()
        self.topics: dict[str, str] = {}
        self._by_name = False
        self._id = self._epoch = 0
        self._began: float | None = None
        self._changed: dict[CopyLane, None] = {}
        self._left: dict[CopyLane, None] = {}
        self._named: dict[CopyLane, AskedPart] = {}
        self._members: dict[Partition, CopyLane] = {}

    def want(self, lane: CopyLane) -> None:
        """The partition is fetched by this session from now on, or goes on at another offset or leader epoch."""
        self.wanted[lane] = None
        self._changed[lane] = None

    def leave(self, lane: CopyLane) -> None:
        """The partition is not fetched by this session any more."""
        self.wanted.pop(lane, None)
        self._changed.pop(lane, None)
        if lane in self._named:
            self._left[lane] = None
        lane.settle_heard()

    def request(self, max_bytes: int, now: float) -> SessionRequest:
        """The next request. Each needs `answered`, `refused` or `restart` before another one.

        :param max_bytes: per partition.
        """
        lost_ids = not self._by_name and any(lane.leader and not lane.leader.topic_id for lane in self._changed)
        if lost_ids or (self._began is not None and now - self._began >= _RESTART_S):
            self.restart()
        if self._epoch == 0:
            for known in (self._named, self._members, self._left, self.topics):
                known.clear()
            self._began = now
            self._changed = dict.fromkeys(self.wanted)
            self._by_name = any(lane.leader and not lane.leader.topic_id for lane in self.wanted)
        forgotten = [self._named.pop(lane) for lane in self._left]
        self._left.clear()
        for part in forgotten:
            del self._members[part.key]
        wait = {part.key for part in forgotten}
        parts, later = list[AskedPart](), dict[CopyLane, None]()
        for lane in self._changed:
            part = asked_part(lane, max_bytes)
            if part.key in wait:
                later[lane] = None
            elif self._named.get(lane) != part:
                self._named[lane] = part
                self._members[part.key] = lane
                self.topics[part.topic_id] = part.topic
                parts.append(part)
        self._changed = later
        return SessionRequest((self._id, self._epoch), parts, forgotten, self._by_name, bool(later))

    def find(self, key: Partition) -> tuple[CopyLane, int] | None:
        """The partition of the last request, and the offset from which it is fetched; None: it was not in it."""
        lane = self._members.get(key)
        return None if lane is None else (lane, self._named[lane].offset)

    def answered(self, session_id: int, asked_at: float, throttled: bool) -> None:
        """
        :param session_id: of the answer; 0: the broker has no room for the session, so each request names all.
        :param throttled: a quota emptied the answer, so it says nothing about any partition.
        """
        if self._epoch == 0:
            self._id = session_id
        elif session_id != self._id:
            self.restart()
            return
        if self._id:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        if not throttled:
            self.heard.asked_at = asked_at

    def refused(self, code: int) -> bool:
        """True if the broker does not know the session as it is here, and a new one can be tried at once."""
        known = code in SESSION_ERRORS and self._epoch != 0
        self.restart()
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = 0
        return known

    def restart(self) -> None:
        """The next request ends the session, if the broker still has it, and begins another one."""
        self._epoch = 0
        self._began = None
        self.heard = Heard()


def asked_part(lane: CopyLane, max_bytes: int) -> AskedPart:
    assert lane.leader is not None
    topic, partition = lane.source_key
    offset, last_epoch = lane.partition.next_offset, lane.partition.next_epoch
    return AskedPart(topic, lane.leader.topic_id, partition, offset, last_epoch, lane.leader.epoch, max_bytes)


def _entry(part: AskedPart) -> dict[str, int]:
    return {
        "partition": part.partition,
        "current_leader_epoch": part.leader_epoch,
        "fetch_offset": part.offset,
        "last_fetched_epoch": part.last_epoch,
        "partition_max_bytes": part.max_bytes,
    }


def _by_topic(parts: Iterable[AskedPart], entry: Callable[[AskedPart], object]) -> list[dict[str, Any]]:
    topics: dict[tuple[str, str], list[object]] = {}
    for part in parts:
        topics.setdefault((part.topic, part.topic_id), []).append(entry(part))
    return [
        {"topic": topic, "topic_id": bytes.fromhex(its_id) or _NO_ID, "partitions": entries}
        for (topic, its_id), entries in topics.items()
    ]
