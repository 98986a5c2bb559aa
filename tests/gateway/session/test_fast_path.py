"""The fast path is equivalent to the slow one: any traffic leaves the same bytes and the same state on both."""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.session.commands import BrokerLane
from gateway.session.fast import fast_path
from gateway.session.fast.produce_patch import BatchesPatch, SettledTopic
from gateway.session.pending import InFlight, Passed
from gateway.session.produce.producer_order import ProducerOrders
from gateway.session.readiness import HalfSent
from gateway.session.requests import MAX_REQUESTS
from gateway.session.snapshot import Port
from ha_core.model import Extent, Fence, LastSequences, Topic
from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas
from ha_core.plan.routing.bounded_cache import CacheBudget
from ha_core.wire import RemoteProtocolError, decode, encode, encode_request, encode_response, read_request_header
from ha_core.wire.templates import FetchTemplate, PartitionSpan, ProduceAnswerTemplate, ProduceTemplate
from tests.gateway.session import leasing
from tests.gateway.session.batch import batch
from tests.gateway.session.crossings import topic as crossing
from tests.gateway.session.messages import (
    CLIENT_PID,
    FETCH,
    PRODUCE,
    fetch,
    fetched,
    limited,
    moved,
    produce,
    produced,
    state,
)
from tests.gateway.session.talk import EAST, WEST, Talk

HEARTBEAT = 12


def come(sequences: bool = False, revision: int = 1, base: int = 3) -> Any:
    """The first partition and the third have come here from the west, the second has always been here."""
    here, there = (
        Extent(cluster="east", start=0, base=0, writer_epoch=0),
        Extent(cluster="west", start=0, base=0, writer_epoch=0),
    )
    extents = {
        number: (replace(there, end=cut), Extent(cluster="east", start=cut, base=began, writer_epoch=1))
        for number, cut, began in ((0, 100, base), (2, 70, 5))
    }
    topic = Topic(name="orders", writer="east", partitions=extents | {1: (here,)})
    held = {0: {CLIENT_PID: (0, 3)}, 2: {CLIENT_PID: (0, 1)}}
    last_sequences = LastSequences(name="orders", partitions=held, terms={0: 1, 2: 1}) if sequences else None
    return state(topic, sequences=last_sequences, revision=revision)


STATES: list[Callable[[int], Any]] = [
    lambda revision: state(revision=revision),
    lambda revision: state(Topic(name="orders", fence=Fence(operation="op-1")), revision=revision),
    lambda revision: state(moved(), revision=revision),
    lambda revision: come(revision=revision),
    lambda revision: come(True, revision=revision),
    lambda revision: come(base=2 * 100, revision=revision),
    lambda revision: state(crossing(), revision=revision),
]
BEGUN = [0, 0, 3, 3, 4, 5, 6]
"""States with which plays begin."""


class Habit:
    """A client's habits: it repeats the same requests, and now and then sends another one."""

    def __init__(self, chance: random.Random, several: bool = False) -> None:
        """:param several: it reads several topics, and names varying ones."""
        self.chance = chance
        self.several = several
        self.writes = chance.choice([0.0, 0.0, 0.5, 0.97])
        self.produce, self.fetch = chance.choice([9, 9, 8, 7, 3]), chance.choice([12, 12, 11, 9, 4])
        self.producer_id = chance.choice([-1, -1, 7, CLIENT_PID, CLIENT_PID, CLIENT_PID + 1])
        self.sequences = {0: chance.randrange(6), 1: 0, 2: chance.randrange(4), 10: 0, 11: 0, 12: 0}
        self.at_once = chance.choice([1, 2, 3])
        self.in_sessions = chance.choice([True, False])

    def usual(self, usual: Any, other: Any) -> Any:
        return other if self.chance.random() < 0.04 else usual

    def batch(self, partition: int) -> bytes:
        """The next batch of its producer, or one that it sends again."""
        sequence = self.sequences[partition] = self.sequences[partition] + self.usual(1, self.chance.choice([-1, 0, 2]))
        payload = b"v" * self.chance.choice([1, 90, 4000])
        if self.producer_id < 0:
            return batch(payload=payload)
        return batch(producer_id=self.producer_id, epoch=0, sequence=max(sequence, 0), payload=payload)


def ask(habit: Habit, correlation: int, sessions: list[int]) -> bytes:
    chance = habit.chance
    topic, client = habit.usual("orders", "other"), habit.usual("app", None)
    kind = chance.random()
    if kind > 0.98:
        key, version, body = HEARTBEAT, 3, {"group_id": "readers", "generation_id": 1, "member_id": "m"}
    elif kind < habit.writes:
        numbers = chance.sample(range(3), chance.randint(1, habit.at_once))
        numbers += numbers[:1] if chance.random() < 0.01 else []
        parts = [(topic, number, None if chance.random() < 0.005 else habit.batch(number)) for number in numbers]
        if chance.random() < 0.04:
            parts.insert(chance.randrange(len(parts) + 1), ("other", 1, batch()))
        if habit.several and chance.random() < 0.5:
            others = chance.sample([("other", 0, 10), ("other", 1, 11), ("third", 0, 12)], chance.randint(1, 3))
            parts += [(name, number, habit.batch(own)) for name, number, own in others]
            parts = parts[chance.choice([0, 0, 0, 1]) :]
        acks = 0 if chance.random() < 0.005 else habit.usual(-1, 1)
        key, version, body = PRODUCE, habit.usual(habit.produce, 8), produce(*parts, acks=acks)
        if habit.several and chance.random() < 0.9:
            body |= {"topic_data": together(body["topic_data"], "name", "partition_data")}
    else:
        key, version = FETCH, habit.usual(habit.fetch, 10)
        reads = [(topic, partition, chance.randrange(1000)) for partition in range(chance.choice([0, 1, 1, 1, 1, 2]))]
        if habit.several:
            more = chance.sample([("orders", 2), ("other", 0), ("other", 1), ("third", 0)], chance.randrange(4))
            reads += [(name, number, chance.randrange(1000)) for name, number in more]
            reads.sort(key=lambda one: one[0], reverse=chance.random() < 0.2)
        epoch = (0, -1)
        if version >= 7 and habit.in_sessions:
            epoch = (sessions[-1], chance.randrange(1, 5)) if sessions and chance.random() < 0.8 else (0, 0)
        body = fetch(*reads, session=epoch)
        if habit.several and chance.random() < 0.9:
            body |= {"topics": together(body["topics"], "topic", "partitions")}
        body["rack_id"] = habit.usual("", "zone-a")
    frame = encode_request(key, version, correlation, client, encode(key, version, "request", body))
    if chance.random() < 0.004:
        at, bit = chance.randrange(12, min(chance.choice([100, 10_000]), len(frame))), 1 << chance.randrange(8)
        frame = frame[:at] + bytes((frame[at] ^ bit,)) + frame[at + 1 :]
    return frame


def together(topics: Any, name: str, parts: str) -> list[dict[str, Any]]:
    """Each topic once, as clients name them."""
    found: dict[str, list[Any]] = {}
    for topic in topics:
        found.setdefault(topic[name], []).extend(topic[parts])
    return [{name: topic, parts: each} for topic, each in found.items()]


def answer(frame: bytes, chance: random.Random, sessions: list[int], plain: bool = False) -> bytes | None:
    """The broker's answer to a request.

    :param plain: no transaction is aborted, and now and then there is no room for a fetch session.
    """
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    key, version = header.api_key, header.api_version
    if key == PRODUCE:
        body = decode(key, version, "request", frame[header.body_at :])
        if body["acks"] == 0:
            return None
        names = [(t["name"], p["index"]) for t in body["topic_data"] for p in t["partition_data"]]
        unusual = [(6, -1), (45, -1), (0, -1), (0, (1 << 63) - 1)]
        said = produced(*((*name, *((0, 7) if chance.random() < 0.97 else chance.choice(unusual))) for name in names))
        said["throttle_time_ms"] = chance.choice([0, 0, 0, 50])
        if chance.random() < 0.02:
            chance.choice(chance.choice(said["responses"])["partition_responses"])["error_message"] = "why"
    elif key == FETCH:
        asked = decode(key, version, "request", frame[header.body_at :])
        session_id = asked["session_id"] if version >= 7 else 0
        if version >= 7 and asked["session_epoch"] == 0:
            session_id = 0 if plain and chance.random() < 0.3 else chance.randrange(1, 1 << 20)
            sessions += [session_id] if session_id else []
        records = batch(payload=b"r" * chance.choice([1, 300, 5000]))
        names = [
            (topic["topic"], partition["partition"]) for topic in asked["topics"] for partition in topic["partitions"]
        ]
        several = len(names) > 1 and chance.random() < 0.3
        said = fetched(*((*one, 9, records) for one in (names if several else [("orders", 0)])), session_id=session_id)
        for one in (partition for topic in said["responses"] if plain for partition in topic["partitions"]):
            one["aborted_transactions"] = chance.choice([None, []])
    elif key == HEARTBEAT:
        said = {"error_code": 0}
    else:
        said = {"error_code": 0, "api_keys": []}
    return encode_response(key, version, header.correlation_id, encode(key, version, "response", said))


def events(chance: random.Random, count: int) -> Iterator[tuple[str, Any]]:
    for _ in range(count):
        kind = chance.random()
        if kind < 0.46:
            yield "client", chance.choice([1, 1, 1, 2, 3])
        elif kind < 0.96:
            yield "broker", chance.choice([1, 1, 2, 3, 9])
        elif kind < 0.97:
            yield "follow", chance.choice([0, 0, 0, *range(1, len(STATES))])
        elif kind < 0.98:
            yield "lose the lease", None
        elif kind < 0.99:
            yield "regain it", None
        else:
            yield "wait", chance.choice([0.01, 0.6, 6.0])


class Play:
    """Sends equal traffic through two sessions, one of which takes the fast path where possible."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        cuts = random.Random(seed + 1)
        self.cuts: list[int] = []
        begun = STATES[self.chance.choice(BEGUN)](1)
        self.both = tuple(Talk(begun, chunks=self.chunks, fast=fast) for fast in (True, False))
        self.fast, self.long = self.both
        self.correlation, self.revision = 0, 1
        self.read: dict[BrokerLane, int] = {}
        self.sessions: list[int] = []
        self.habit = Habit(self.chance, several=seed % 2 == 1)
        self.plain = seed % 3 == 1
        self._cut = cuts

    def chunks(self, data: bytes) -> list[bytes]:
        """The pieces in which the network delivers: equal for both."""
        points = sorted({point for point in self.cuts if 0 < point < len(data)})
        return [data[a:b] for a, b in zip([0, *points], [*points, len(data)], strict=True)]

    def each(self, do: Callable[[Talk], Any]) -> None:
        self.cuts = [self._cut.randrange(1, 6000) for _ in range(self._cut.choice([0, 0, 0, 0, 1, 2]))]
        for talk in self.both:
            if talk.closed is None:
                do(talk)

    def happens(self, kind: str, what: Any) -> None:
        if kind == "client":
            data = b""
            for _ in range(what):
                self.correlation += 1
                data += ask(self.habit, self.correlation, self.sessions)
            self.each(lambda talk: talk.send(data))
        elif kind == "broker":
            for _ in range(what):
                self.broker_answers()
        elif kind == "follow":
            self.revision += 1
            found = STATES[what](self.revision)
            self.each(lambda talk: talk.follow(found))
        elif kind == "lose the lease":
            self.each(leasing.lose)
        elif kind == "regain it":
            self.each(leasing.regain)
        else:
            self.each(lambda talk: talk.wait(what))

    def broker_answers(self) -> None:
        """Answers the next request; a broker whose answer waits for its turn is not read."""
        for lane in (EAST, WEST):
            upstream = self.fast.session.upstreams.get(lane)
            if upstream is not None and upstream.blocked:
                continue
            read, data = self.read.get(lane, 0), self.fast.upstream.get(lane, bytearray())
            size = int.from_bytes(data[read : read + 4], "big")
            if len(data) < read + 4 or len(data) < read + 4 + size:
                continue
            frame = bytes(data[read : read + 4 + size])
            self.read[lane] = read + 4 + size
            try:
                said = answer(frame, self.chance, self.sessions, self.plain)
            except RemoteProtocolError:
                self.each(lambda talk, lane=lane: talk.lose(lane))  # type: ignore[misc] # as brokers do
                continue
            if said is not None:
                self.each(lambda talk, lane=lane, said=said: talk.broker_sends(lane, said))  # type: ignore[misc]


def said(end: object) -> str:
    """The reason without positions: a fault is reported by its position in the bytes, some of which the fast path
    used."""
    return re.sub(r"\b(byte|end at) \d+", r"\1", repr(end))


def named(topics: Sequence[bytes] | None) -> list[bytes] | None:
    """Sorted: the order has no meaning."""
    return None if topics is None else sorted(topics)


def shape(talk: Talk) -> dict[str, Any]:
    """All state of a session that later events depend on, and all that it has sent."""
    session = talk.session
    talk.writer_epochs.catch_up(b"orders")  # each path does when it has to
    reading = session.intake.reading
    return {
        "to client": bytes(talk.to_client),
        "to brokers": {lane: bytes(data) for lane, data in talk.upstream.items()},
        "closed": said(talk.closed),
        "others": [repr(one) for one in talk.others if "token" not in repr(one)],
        "queue": [
            (type(pending).__name__, pending.request.api_key, pending.request.correlation_id, pending.basis)
            + (
                (named(pending.topics), pending.lane, pending.revision, pending.group)
                if isinstance(pending, InFlight)
                else ()
            )
            + ((sorted(getattr(pending, "reads", ())), getattr(pending, "in_session", None)))
            for pending in session.in_flight.queue
        ],
        "brokers": {
            lane: (len(one.queue), one.blocked, bytes(one.carry), type(one.writing).__name__, repr(one.answer)[:30])
            for lane, one in session.upstreams.items()
        },
        "reading": (reading.lane, reading.missing, reading.basis) if isinstance(reading, HalfSent) else type(reading),
        "rest": (
            bytes(session.intake.carry),
            type(session.intake.waits_for),
            session.intake.headers_read,
            session.in_flight.only_produce,
        ),
        "life": said(session.context.life),
        "fetch session": None
        if (fetch_session := session.fetching.fetch_session) is None
        else (fetch_session.id, fetch_session.topics, fetch_session.ends),
        "counts": session.context.shared.counts.requests,
        "refusals": session.context.shared.counts.refusals,
        "writer_epochs": repr(vars(talk.writer_epochs)),
        "asked": (session.paused, session.partial, session.idle, session.busy, session.writes),
    }


@given(st.integers(0, 1 << 32))
@example(200_600)  # the second of two requests that came together is damaged
@example(7_007_106)  # an answer waits for its turn, and its broker sends more
@settings(deadline=None, max_examples=250)
def test_any_traffic_leaves_the_same_bytes_and_the_same_state(seed: int) -> None:
    play = Play(seed)
    for kind, what in events(play.chance, 60):
        play.happens(kind, what)
        assert shape(play.fast) == shape(play.long), (kind, what)


def test_a_play_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a count of the calls there
    ways = {
        "requests": (fast_path, "requests"),
        "answers": (fast_path, "answers"),
        "writes": (SettledTopic, "settles"),
        "shifts": (ProduceAnswerTemplate, "shift"),
        "reads": (fast_path, "patch"),
        "reads of one partition": (fast_path, "patch_one"),
        "reads of several topics": (FetchTemplate, "_walk"),
        "writes of several topics": (ProduceTemplate, "_walk"),
        "answers that are patched": (fast_path, "_patch"),
        "usual answers": (fast_path, "patch_usual"),
    }
    passed = dict.fromkeys(ways, 0)
    for name, (owner, attribute) in ways.items():
        way = getattr(owner, attribute)

        def counted(*arguments: Any, way: Any = way, name: str = name) -> Any:
            used = way(*arguments)
            passed[name] += bool(used)
            return used

        monkeypatch.setattr(owner, attribute, counted)
    # When some plays are played
    for seed in range(150):
        play = Play(seed)
        for kind, what in events(play.chance, 60):
            play.happens(kind, what)
    # Then the equality above does not compare two slow paths
    assert passed["requests"] > 100
    assert passed["answers"] > 100
    # nor only forwarded requests
    for name, times in passed.items():
        assert times > 10, name


def all_but_the_last_are_rewritten(change: BatchesPatch, buf: bytearray) -> None:
    write(change._replace(each=dict(list(change.each.items())[:-1])), buf)


def all_but_the_last_are_looked_at(
    topic: SettledTopic, buf: bytearray, spans: Sequence[PartitionSpan], *rest: Any
) -> Any:
    return settles(topic, buf, spans[: max(1, len(spans) - 1)], *rest)


def all_but_the_last_are_shifted(
    like: ProduceAnswerTemplate, buf: bytearray, at: int, end: int, shifts: Mapping[Any, int]
) -> bool:
    return shift(like, buf, at, end, dict(list(shifts.items())[: max(1, len(shifts) - 1)]))


write, settles, shift = BatchesPatch.write, SettledTopic.settles, ProduceAnswerTemplate.shift


@pytest.mark.parametrize(
    ("owner", "attribute", "fault"),
    [
        (BatchesPatch, "write", all_but_the_last_are_rewritten),
        (SettledTopic, "settles", all_but_the_last_are_looked_at),
        (ProduceAnswerTemplate, "shift", all_but_the_last_are_shifted),
    ],
)
def test_plays_find_a_fault_that_only_requests_of_several_partitions_show(
    owner: type, attribute: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a path that forgets the last of several partitions
    monkeypatch.setattr(owner, attribute, fault)
    # When as many plays are played as a run of the test above has
    differ = False
    for seed in range(250):
        play = Play(seed)
        for kind, what in events(play.chance, 60):
            play.happens(kind, what)
        differ = shape(play.fast) != shape(play.long)
        if differ:
            break
    # Then one of them differs between the paths
    assert differ


def both_ways() -> tuple[Talk, Talk]:
    return Talk(state(), fast=True), Talk(state(), fast=False)


def test_a_fetch_session_that_has_named_too_many_topics_ends_with_the_next_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.session.fetch.fetch_session.MAX_TOPICS", 2)
    for talk in both_ways():
        # Given a fetch session that gets one topic more than the limit
        talk.ask(FETCH, 12, fetch(("orders", 0, 1), ("other", 0, 1), session=(0, 0)))
        talk.answer(EAST, talk.asked(EAST)[0], fetched(session_id=5))
        talk.ask(FETCH, 12, fetch(("orders", 0, 1), session=(5, 1)))
        talk.ask(FETCH, 12, fetch(("third", 0, 1), session=(5, 2)))
        assert len(talk.asked(EAST)) == 2
        # When the client repeats its fetch
        talk.ask(FETCH, 12, fetch(("orders", 0, 2), session=(5, 3)))
        # Then it has to begin a new session
        assert not talk.asked(EAST), talk.fast


def test_fetches_of_a_session_that_has_named_one_topic_more_still_take_the_fast_path() -> None:
    # Given a session, and a fetch of it that names nothing
    talk = Talk(state())
    nothing = [encode_request(FETCH, 12, 9, "app", encode(FETCH, 12, "request", fetch(session=(5, n)))) for n in (1, 3)]
    talk.ask(FETCH, 12, fetch(("orders", 0, 1), session=(0, 0)))
    talk.answer(EAST, talk.asked(EAST)[0], fetched(session_id=5))
    talk.send(nothing[0])
    # When another one has named a topic
    talk.ask(FETCH, 12, fetch(("other", 0, 1), session=(5, 2)))
    # Then the next one that names nothing is not decoded
    assert fast_path.requests(talk.session, bytearray(nothing[1]), len(nothing[1]), talk.now) == len(nothing[1])


def test_a_fetch_session_that_begins_on_the_fast_path_has_no_topic_of_the_one_before() -> None:
    # Given a session that has named one topic more since it began
    talk = Talk(state())
    begin = encode_request(FETCH, 12, 9, "app", encode(FETCH, 12, "request", fetch(("orders", 0, 1), session=(0, 0))))
    talk.send(begin)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(session_id=5))
    talk.ask(FETCH, 12, fetch(("other", 0, 1), session=(5, 1)))
    talk.answer(EAST, talk.asked(EAST)[0], fetched(session_id=5))
    # When the client begins again as before, by a fetch that is not decoded
    assert fast_path.requests(talk.session, bytearray(begin), len(begin), talk.now) == len(begin)
    # Then that one waits for the topics that it names, and for those that the new session names later
    (pending,) = talk.session.in_flight.queue
    assert isinstance(pending, Passed)
    assert talk.session.fetching.fetch_session is not None
    assert pending.reads is talk.session.fetching.fetch_session.topics
    assert pending.reads == [b"orders"]


def test_a_former_fetch_session_is_not_kept_in_memory() -> None:
    talk = Talk(state())
    for session_id in range(1, 4):
        # Given a client that begins a new session again and again
        talk.ask(FETCH, 12, fetch(("orders", 0, 1), session=(0, 0)))
        talk.answer(EAST, talk.asked(EAST)[-1], fetched(session_id=session_id))
        talk.ask(FETCH, 12, fetch(("orders", 0, 1), session=(session_id, 1)))
        talk.answer(EAST, talk.asked(EAST)[0], fetched(session_id=session_id))
    # Then only the present session and a template of a beginning are kept
    stands, begins = talk.session.decisions.newest_first
    assert stands.fetch_session is talk.session.fetching.fetch_session
    assert begins.fetch_session is None


@pytest.mark.parametrize("of", [state(), state(moved(0))])
def test_a_client_for_whose_session_a_broker_has_no_room_takes_the_fast_path(of: Any) -> None:
    # Given a reader that asks for a session with each fetch, and gets none
    talk = Talk(of, Port("west", 1))
    body = encode(FETCH, 12, "request", fetch(("orders", 0, 150), session=(0, 0)))
    talk.send(encode_request(FETCH, 12, 1, "app", body))
    (asked,) = talk.asked(WEST)
    talk.answer(WEST, asked, fetched(("orders", 0, 200, batch(150))))
    # When it asks again
    data = bytearray(encode_request(FETCH, 12, 2, "app", body))
    # Then the fetch is not decoded
    assert fast_path.requests(talk.session, data, len(data), talk.now) == len(data)
    (pending,) = talk.session.in_flight.queue
    assert isinstance(pending, Passed)
    assert pending.in_session
    assert talk.session.fetching.fetch_session is not None
    assert list(talk.session.fetching.fetch_session.topics) == [b"orders"]


def test_an_answer_with_a_throttle_time_is_held_whole_though_its_quota_has_gone() -> None:
    for talk in both_ways():
        # Given a produce that used up a quota
        talk.follow(limited(state(revision=2), produce=10))
        talk.ask(PRODUCE, 9, produce(("orders", 0, batch(payload=b"v" * 9000))))
        (asked,) = talk.asked(EAST)
        # When there are only quotas for others, and its answer begins to come
        talk.follow(replace(state(revision=3), quotas=Quotas({QuotaEntity(user="alice"): {QuotaKind.PRODUCE: 1.0}})))
        data = encode_response(
            PRODUCE, 9, asked.correlation_id, encode(PRODUCE, 9, "response", produced(("orders", 0, 0, 7)))
        )
        talk.broker_sends(EAST, data[:20])
        # Then it goes once all of it is there
        assert not talk.to_client, talk.fast
        talk.broker_sends(EAST, data[20:])
        assert talk.to_client == data


def test_requests_forwarded_within_one_event_are_bounded() -> None:
    # Given a gateway that lets clients have many requests in flight, and a client that sends them all at once
    talk = Talk(state())
    talk.session.context.shared = talk.session.context.shared._replace(max_in_flight=10_000)
    body = encode(FETCH, 12, "request", fetch())
    talk.send(encode_request(FETCH, 12, 0, "app", body))
    data = bytearray(b"".join(encode_request(FETCH, 12, 1 + number, "app", body) for number in range(1000)))
    # When they have come
    passed = fast_path.requests(talk.session, data, len(data), talk.now)
    # Then some of them are forwarded at once
    assert passed == MAX_REQUESTS * len(data) // 1000


@pytest.mark.parametrize("version", [3, 7, 9])
def test_requests_that_were_sent_together_are_forwarded_together(version: int) -> None:
    # Given a producer with several requests in flight, the first of which was decoded
    talk = Talk(state())
    body = encode(PRODUCE, version, "request", produce(("orders", 0, batch())))
    frames = [encode_request(PRODUCE, version, number, "app", body) for number in range(4)]
    talk.send(frames[0])
    # When three more come together, the last of them incomplete
    data = bytearray(b"".join(frames[1:]))
    # Then all are forwarded unchanged
    assert fast_path.requests(talk.session, data, len(data) - 3, talk.now) == len(data) - 3


def settled(talk: Talk, monkeypatch: pytest.MonkeyPatch, *sent: tuple[int, int]) -> int:
    """Number of these that were not judged: partitions, and the producers of their first batches."""
    passed, way = 0, SettledTopic.settles

    def counted(*arguments: Any) -> Any:
        nonlocal passed
        goes = way(*arguments)
        passed += goes is not None
        return goes

    monkeypatch.setattr(SettledTopic, "settles", counted)
    for partition, producer in sent:
        talk.ask(PRODUCE, 9, produce(("orders", partition, batch(producer_id=producer, epoch=0, sequence=0))))
        (asked,) = talk.asked(EAST)
        talk.answer(EAST, asked, produced(("orders", partition, 0, 7)))
    return passed


def test_a_batch_lost_across_a_cut_makes_no_other_producer_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a batch in flight across a cut whose connection broke, and that never came again
    orders = ProducerOrders()
    lost = Talk(state(crossing()), producer_orders=orders)
    lost.ask(PRODUCE, 9, produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=0))))
    lost.lose(EAST)
    # When other producers write where the cut is settled
    talk = Talk(come(revision=2), producer_orders=orders)
    passed = settled(talk, monkeypatch, (0, CLIENT_PID + 1), (0, CLIENT_PID + 1), (0, CLIENT_PID + 2), (0, CLIENT_PID))
    # Then they are treated like the first of them, and the lost batch's producer is judged
    assert passed == 2


def test_cached_partitions_are_bounded_for_all_clients_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given clients that write to many partitions of a topic, some of which may not exist
    talks, room = [Talk(come()) for _ in range(10)], CacheBudget(max_entries=100)
    for talk in talks:
        talk.session.context.shared = talk.session.context.shared._replace(remembered=room)
        # When each of them has written
        assert settled(talk, monkeypatch, *((partition, -1) for partition in range(50)))
    # Then the cache does not exceed its budget
    mapped = [
        topic
        for talk in talks
        for flow in talk.session.decisions.newest_first
        for topic in (flow.mapped or {}).values()
    ]
    kept = sum(len(topic._partitions) for topic in mapped)
    assert mapped
    assert kept <= 100
