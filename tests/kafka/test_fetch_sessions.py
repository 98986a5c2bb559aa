"""Fetch sessions: whatever the broker forgets, refuses or leaves out, no record and no partition is missed."""

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from ha_core.kafka.copying.sessions import AskedPart, SessionRequest, SourceSession
from ha_core.kafka.copying.states import CopyLane
from ha_core.kafka.copying.statuses import SourceEnds
from ha_core.kafka.offsets import Leadership
from ha_core.mirror.lag import LagTracker
from ha_core.mirror.pace import RateMeter
from ha_core.mirror.partition import PartitionCopy
from ha_core.mirror.progress import Progress, Writer
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ErrorCode
from tests.kafka.mirroring import copy_of


def lane_of(number: int, offset: int = 0) -> CopyLane:
    copy = PartitionCopy(Progress(Writer(900, 3), offset, 0))
    lane = CopyLane(copy_of("orders", number), copy, 0.0, RateMeter(0.0), LagTracker(), 0, 0, 0)
    lane.leader, lane.lags = Leadership(0, 1, "ab" * 16), False
    return lane


class Answered(NamedTuple):
    """:ivar parts: partition → end of its log."""

    code: int
    session_id: int
    parts: dict[Partition, int]
    throttled: bool = False


@dataclass
class SessionBroker:
    """Keeps sessions as KIP-227 says, and FetchSession.java does it.

    :ivar room: whether it has room for sessions.
    """

    ends: dict[Partition, int]
    room: bool = True
    throttles: bool = False
    sessions: dict[int, dict[Partition, tuple[int, int]]] = field(default_factory=dict)
    """Id → partition → its offset in the request, and the end that was told last."""
    epochs: dict[int, int] = field(default_factory=dict)
    given: int = 0

    def answer(self, asked: SessionRequest) -> Answered:
        id_, epoch = asked.session
        if epoch == 0:
            self.sessions.pop(id_, None)
            if self.throttles:
                return Answered(0, 0, {}, throttled=True)
            parts = {part.key: self.ends[part.key] for part in asked.parts}
            if not self.room:
                return Answered(0, 0, parts)
            self.given += 1
            self.sessions[self.given] = {part.key: (part.offset, self.ends[part.key]) for part in asked.parts}
            self.epochs[self.given] = 1
            return Answered(0, self.given, parts)
        if id_ not in self.sessions:
            return Answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, {})
        if epoch != self.epochs[id_]:
            return Answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, {})
        self.epochs[id_] += 1
        known = self.sessions[id_]
        for part in asked.parts:
            known[part.key] = part.offset, known.get(part.key, (0, -1))[1]
        for part in asked.forgotten:
            known.pop(part.key, None)
        if self.throttles:
            return Answered(0, id_, {}, throttled=True)
        told = {}
        for key, (offset, before) in known.items():
            if self.ends[key] > offset or self.ends[key] != before:
                told[key] = self.ends[key]
            known[key] = offset, self.ends[key]
        return Answered(0, id_, told)


class Fetcher:
    """A session, its broker, and partitions that come, go and get records."""

    def __init__(self, partitions: int) -> None:
        self.now = 0.0
        self.session = SourceSession()
        self.lanes = {number: lane_of(number) for number in range(partitions)}
        self.broker = SessionBroker({lane.source_key: 0 for lane in self.lanes.values()})
        for lane in self.lanes.values():
            self.session.want(lane)

    def fetch(self, lost: bool = False) -> SessionRequest:
        """One request, whose answer may be lost with its connection."""
        self.now += 1.0
        asked_at = self.now
        asked = self.session.request(1 << 20, asked_at)
        answer = self.broker.answer(asked)
        if lost:
            self.session.restart()
            return asked
        if answer.code:
            assert self.session.refused(answer.code)
            return asked
        for key, end in answer.parts.items():
            found = self.session.find(key)
            assert found is not None, "it was not asked for"
            lane, offset = found
            if lane.partition.next_offset == offset:
                lane.partition.next_offset = end
                lane.hear(SourceEnds(end, end), asked_at)
                if lane in self.session.wanted:
                    lane.heard = self.session.heard
                    self.session.want(lane)
        self.session.answered(answer.session_id, asked_at, answer.throttled)
        if not answer.throttled:
            self.check()
        return asked

    def check(self) -> None:
        """Partitions that the answer left out are unchanged."""
        for lane in self.session.wanted:
            if lane.heard is self.session.heard:
                assert lane.heard_at == self.now
                assert lane.ends is not None
                assert lane.ends.acknowledged == self.broker.ends[lane.source_key] == lane.partition.next_offset

    def named(self, asked: SessionRequest) -> set[int]:
        return {part.partition for part in asked.parts}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["write", "fetch", "fetch", "leave", "want", "replace", "lose", "evict", "throttle", "no room", "wait"]
        ),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_partition_is_missed_whatever_the_broker_does(steps: list[tuple[str, int]]) -> None:
    # Given a session whose partitions come, go and get records, on a broker that loses, refuses or throttles it
    fetcher = Fetcher(6)
    for what, number in steps:
        lane, broker = fetcher.lanes[number], fetcher.broker
        broker.throttles, broker.room = what == "throttle", what != "no room"
        match what:
            case "write":
                broker.ends[lane.source_key] += 1
            case "leave":
                fetcher.session.leave(lane)
            case "want":
                fetcher.session.want(lane)
            case "replace":  # it is taken over again
                fetcher.session.leave(lane)
                fetcher.lanes[number] = lane_of(number, lane.partition.next_offset)
                fetcher.session.want(fetcher.lanes[number])
            case "evict":
                broker.sessions.clear()
            case "wait":
                fetcher.now += 1000.0
            case _:
                fetcher.fetch(lost=what == "lose")
    # When the broker is well again, and all are wanted
    fetcher.broker.throttles, fetcher.broker.room = False, True
    for lane in fetcher.lanes.values():
        fetcher.session.want(lane)
    for _ in range(4):
        fetcher.fetch()
    # Then each has all records, and is known to
    for lane in fetcher.lanes.values():
        assert lane.partition.next_offset == fetcher.broker.ends[lane.source_key]
        assert lane.heard is fetcher.session.heard
        assert lane.heard_at == fetcher.now


def test_requests_name_only_partitions_that_changed() -> None:
    # Given a thousand partitions of a session
    fetcher = Fetcher(1000)
    assert len(fetcher.named(fetcher.fetch())) == 1000
    # When one gets a record, then one answer has it, and the next request names it alone
    fetcher.broker.ends[fetcher.lanes[7].source_key] = 1
    assert fetcher.named(fetcher.fetch()) == set()
    assert fetcher.named(fetcher.fetch()) == {7}
    assert fetcher.named(fetcher.fetch()) == set()


def test_partition_that_comes_back_is_forgotten_before_it_is_named() -> None:
    # Given a partition that left its session and came back between two requests
    fetcher = Fetcher(2)
    fetcher.fetch()
    fetcher.session.leave(fetcher.lanes[0])
    fetcher.session.want(fetcher.lanes[0])
    # When the next request is sent, then it forgets the partition, and one more follows soon
    asked = fetcher.fetch()
    assert [part.partition for part in asked.forgotten] == [0]
    assert not asked.parts
    assert asked.more
    # Then the one after it names the partition, so that the broker tells its end
    assert fetcher.named(fetcher.fetch()) == {0}
    assert fetcher.lanes[0].heard is fetcher.session.heard


def test_topics_without_ids_begin_a_session_by_name() -> None:
    # Given a session by topic ids
    fetcher = Fetcher(2)
    assert not fetcher.fetch().by_name
    # When the brokers have none any more
    lane = fetcher.lanes[1]
    lane.leader = Leadership(0, 2, "")
    fetcher.session.want(lane)
    # Then another session begins
    asked = fetcher.fetch()
    assert asked.by_name
    assert fetcher.named(asked) == {0, 1}


def test_old_session_ends_where_a_new_one_begins_after_a_lost_connection() -> None:
    fetcher = Fetcher(1)
    fetcher.fetch()
    fetcher.fetch(lost=True)
    assert list(fetcher.broker.sessions) == [1]
    assert fetcher.fetch().session == (1, 0)
    assert list(fetcher.broker.sessions) == [2]


def test_part_of_a_request_has_what_the_broker_must_know() -> None:
    fetcher = Fetcher(1)
    (part,) = fetcher.session.request(1000, 0.0).parts
    assert part == AskedPart("orders", "ab" * 16, 0, 0, -1, 1, 1000)
