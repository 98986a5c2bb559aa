"""A reader of two topics that move to and fro, beside gateways that pause: events in any order.

A paused gateway writes above a cut, this gateway loses its lease and hears late of moves, answers of brokers come in
pieces, and were made before later events. Some readers read in a fetch session (KIP-227), which brokers may forget.
Each returned record has to be the one of its offset, no fetch may wait forever, and no connection ends.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.session.commands import AwaitLease
from gateway.session.snapshot import Port
from ha_core.model import Topic
from ha_core.model.extent import Location, append, identity, locate, open_extent
from ha_core.wire import ErrorCode, encode, encode_response
from ha_core.wire.records import batches
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, fetch, state
from tests.gateway.session.talk import EAST, WEST, Asked, Talk

LANES = {"east": EAST, "west": WEST}
TOPICS = ("orders", "other")
RECORDS_AT, RECORD_BYTES = 61, 24
"""Positions in a batch of version 2, and in the records written here."""
PLAYS, EVENTS = 400, 60
FORGOTTEN = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


class Clusters:
    """Logs of the clusters, and the topics' present places."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.revision = chance, 1
        self.logs: dict[tuple[str, str], list[bytes]] = {(name, one): [] for name in TOPICS for one in LANES}
        self.sessions: dict[tuple[str, int], dict[str, int]] = {}
        """Fetch sessions of brokers: the offsets that they were asked for."""
        self.maps: dict[str, Topic] = {}
        for name in TOPICS:
            writer = chance.choice(sorted(LANES))
            if writer != "east" or chance.random() < 0.8:  # else it has no map yet
                self.maps[name] = Topic(name=name, writer=writer, partitions={0: identity(writer)})

    def state(self) -> Any:
        return state(*self.maps.values(), revision=self.revision)

    def extents(self, name: str) -> Any:
        return self.maps[name].extents(0) if name in self.maps else identity("east")

    def write(self, name: str, cluster: str | None = None, what: str = "") -> None:
        """:param cluster: None: the topic's present one."""
        log = self.logs[name, cluster or open_extent(self.extents(name)).cluster]
        log.append(f"{what}{name} {cluster or ''} {len(log)}".encode().ljust(RECORD_BYTES))

    def write_late(self, name: str) -> None:
        """A write through a gateway that does not know that the topic has left."""
        if left := {extent.cluster for extent in self.extents(name)[:-1]} - {open_extent(self.extents(name)).cluster}:
            self.write(name, left.pop(), "late ")

    def move(self, name: str) -> None:
        extents = self.extents(name)
        here = open_extent(extents)
        (there,) = LANES.keys() - {here.cluster}
        cut = here.to_client(len(self.logs[name, here.cluster]))
        moved = append(extents, there, cut, len(self.logs[name, there]))
        self.maps[name] = Topic(name=name, writer=there, partitions={0: moved})
        self.revision += 1

    def record(self, name: str, offset: int) -> bytes | None:
        location = locate(self.extents(name), offset)
        log = self.logs[name, location.extent.cluster]
        return log[location.physical] if isinstance(location, Location) and location.physical < len(log) else None

    def answer(self, cluster: str, asked: Asked) -> bytes:
        session, error = asked.body["session_id"], 0
        named = {topic["topic"]: topic["partitions"][0]["fetch_offset"] for topic in asked.body["topics"]}
        if asked.body["session_epoch"] == 0:
            session = self.chance.randrange(1, 1 << 20)
            self.sessions[cluster, session] = named
        elif session != 0 and self.chance.random() < 0.05:
            self.sessions.pop((cluster, session), None)
        if session != 0:
            known = self.sessions.get((cluster, session))
            error = 0 if known is not None else FORGOTTEN
            named = {} if known is None else {**known, **named}
            self.sessions[cluster, session] = named
        found = [self._read(cluster, name, offset) for name, offset in named.items()]
        if asked.body["session_epoch"] > 0:  # new records
            found = [one for one in found if one["partitions"][0]["records"] or self.chance.random() < 0.2]
        body = {"error_code": error, "session_id": 0 if error else session, "responses": found}
        encoded = encode(asked.api_key, asked.version, "response", body)
        return encode_response(asked.api_key, asked.version, asked.correlation_id, encoded)

    def _read(self, cluster: str, name: str, offset: int) -> dict[str, Any]:
        log = self.logs[name, cluster]
        until = min(offset + self.chance.choice([1, 2, 100]), len(log))
        partition: dict[str, Any] = {
            "partition_index": 0,
            "error_code": 0 if 0 <= offset <= len(log) else 1,
            "high_watermark": len(log),
            "last_stable_offset": len(log),
            "log_start_offset": 0,
            "aborted_transactions": [],
            "records": b"".join(batch(at, payload=log[at]) for at in range(offset, until)),
        }
        return {"topic": name, "partitions": [partition]}


class Play:
    """One reader, its gateway, and the events between."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clusters = Clusters(self.chance)
        self.talk = Talk(self.clusters.state(), Port(self.chance.choice(sorted(LANES)), 1))
        self.at = dict.fromkeys(TOPICS, 0)
        self.asked: dict[str, list[tuple[Asked, bytes]]] = {one: [] for one in LANES}
        """Requests of each broker, with the answer if it is made already."""
        self.rest = dict.fromkeys(LANES, b"")
        self.wanted: list[dict[str, int]] = []
        self.leased = True
        self.in_sessions = self.chance.random() < 0.3
        self.session = (0, 0)
        """The reader's session: its id, 0 before it has begun, and the epoch of the next request."""
        self.told: dict[str, int] = {}
        """Offsets that the session was asked for."""
        self.begun = 0
        """Answers in a session."""

    def ask(self) -> None:
        if self.in_sessions:
            self.ask_in_session()
        elif len(self.talk.session.in_flight.queue) < 4 and self.talk.session.intake.waits_for is None:
            names = self.chance.choice([TOPICS, TOPICS[::-1], TOPICS[:1], TOPICS[1:]])
            self.wanted.append(dict(self.at))
            self.talk.ask(FETCH, 12, fetch(*((name, 0, self.at[name]) for name in names)))

    def ask_in_session(self) -> None:
        if not self.wanted and self.talk.session.intake.waits_for is None:
            if self.chance.random() < 0.1:  # it goes back
                name = self.chance.choice(TOPICS)
                self.at[name] = self.chance.randrange(self.at[name] + 1)
            named = {name: at for name, at in self.at.items() if self.session == (0, 0) or self.told[name] != at}
            self.told = dict(self.at)
            self.wanted.append(dict(self.at))
            self.talk.ask(FETCH, 12, fetch(*((name, 0, at) for name, at in named.items()), session=self.session))

    def make_answers(self) -> None:
        for cluster, some in self.asked.items():
            some[:] = [(asked, made or self.clusters.answer(cluster, asked)) for asked, made in some]

    def bring(self, cluster: str, at_most: int = 1 << 30) -> None:
        upstream = self.talk.session.upstreams.get(LANES[cluster])
        if upstream is None or upstream.blocked:
            return
        data = self.rest[cluster]
        if not data and self.asked[cluster]:
            asked, made = self.asked[cluster].pop(0)
            data = made or self.clusters.answer(cluster, asked)
        self.rest[cluster] = data[at_most:]
        buf = bytearray(bytes(upstream.carry) + data[:at_most])
        self.talk.take(self.talk.session.receive_upstream(upstream.lane, buf, len(buf), self.talk.now))

    def move(self) -> None:
        self.clusters.move(self.chance.choice(TOPICS))
        if self.leased:  # no operation goes on without a gateway that has its lease
            self.follow()

    def follow(self) -> None:
        self.talk.follow(self.clusters.state())

    def lose_lease(self) -> None:
        if self.leased:
            self.leased, self.talk.lease.valid_until = False, self.talk.now
            self.talk.wait(1.0)

    def regain_lease(self) -> None:
        """After any published revision."""
        if not self.leased:
            self.follow()
            self.talk.now += 1.0
            self.leased = True
            self.talk.lease.renew(self.talk.now, 1e9)
            if any(isinstance(one, AwaitLease) for one in self.talk.others):
                self.talk.take(self.talk.session.tick(self.talk.now))
            self.talk.others.clear()

    def look(self) -> None:
        """Takes requests that have come to brokers, and answers that have come to the reader."""
        for cluster, lane in LANES.items():
            self.asked[cluster] += [(asked, b"") for asked in self.talk.asked(lane)]
        for answer in self.talk.answers():
            wanted, (_, epoch) = self.wanted.pop(0), self.session
            ends = answer["error_code"] or not answer["session_id"]
            self.session = (0, 0) if ends else (answer["session_id"], epoch + 1)
            self.begun += not ends
            for response in answer["responses"]:
                self._given(response["topic"], response["partitions"][0]["records"] or b"", wanted[response["topic"]])
        assert self.talk.closed is None

    def _given(self, name: str, records: bytes, wanted: int) -> None:
        for one in batches(records, 0, len(records)):
            payload = records[one.at + RECORDS_AT : one.end]
            if one.base_offset >= wanted:
                assert payload == self.clusters.record(name, one.base_offset), (name, one.base_offset)
            self.at[name] += one.base_offset == self.at[name]

    def events(self) -> Sequence[Callable[[], None]]:
        some, cluster = self.chance.choice, sorted(LANES)
        return (
            *(
                self.ask,
                self.ask,
                self.ask,
                self.move,
                self.follow,
                self.lose_lease,
                self.regain_lease,
                self.make_answers,
            ),
            *(lambda: self.bring(some(cluster)), lambda: self.bring(some(cluster), self.chance.randrange(1, 200))),
            *(lambda: self.clusters.write(some(TOPICS)), lambda: self.clusters.write_late(some(TOPICS))),
            lambda: self.talk.wait(some([0.0, 0.3, 3.0])),
        )

    def run(self) -> None:
        events, cluster = self.events(), sorted(LANES)
        for _ in range(EVENTS):
            self.chance.choice(events)()
            self.look()
        # At the end all faults are over, and brokers answer
        self.regain_lease()
        for _ in range(50):
            for one in cluster:
                self.bring(one)
            self.talk.wait(1.0)
            self.look()
        assert not self.talk.session.in_flight.queue


class SessionPlay(Play):
    """A reader at the end of two topics that have moved, in one fetch session most of the time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.in_sessions = True
        port = self.talk.session.context.here
        assert port is not None
        for name in TOPICS:
            for cluster in LANES:
                for _ in range(self.chance.randrange(1, 9)):
                    self.clusters.write(name, cluster)
            while open_extent(self.clusters.extents(name)).cluster != port.cluster or name not in self.clusters.maps:
                self.clusters.move(name)
            extent = open_extent(self.clusters.extents(name))
            self.at[name] = extent.to_client(len(self.clusters.logs[name, port.cluster]))
        self.follow()

    def events(self) -> Sequence[Callable[[], None]]:
        some, cluster = self.chance.choice, sorted(LANES)
        often = (
            self.ask,
            self.ask,
            *(lambda: self.bring(some(cluster)),) * 2,
            lambda: self.clusters.write(some(TOPICS)),
        )
        seldom = (self.move, self.move, self.follow, self.lose_lease, self.regain_lease, self.make_answers)
        late = (lambda: self.clusters.write_late(some(TOPICS)), lambda: self.bring(some(cluster), some([30, 100])))
        return (*often * 8, *seldom, *late * 2)


@pytest.mark.parametrize("part", range(4))
def test_a_reader_gets_the_record_of_each_offset_and_never_waits_forever_whatever_happens_between(part: int) -> None:
    for seed in range(part, PLAYS, 4):
        played(Play, seed)


def test_a_reader_in_a_fetch_session_gets_the_record_of_each_offset_whatever_happens_between() -> None:
    begun = sum(played(SessionPlay, seed).begun for seed in range(PLAYS))
    # and sessions are not rare
    assert begun > PLAYS // 4


def played(kind: type[Play], seed: int) -> Play:
    play = kind(seed)
    try:
        play.run()
    except AssertionError as error:
        raise AssertionError(f"play {seed}: {error}") from error
    return play
