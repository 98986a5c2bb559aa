"""Requests like a forwarded one are not decoded. (`test_fast_path`: they are treated like that one.)"""

import random
from itertools import groupby
from operator import itemgetter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.session.fast import fast_path
from gateway.session.fast.cached_decision import MAX_DECISIONS
from gateway.session.snapshot import Port
from ha_core.model import Extent, Topic
from ha_core.wire import encode, encode_request
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import CLIENT_PID, FETCH, PRODUCE, fetch, fetched, produce, produced, state
from tests.gateway.session.talk import EAST, Talk

PLAIN, MAPPED = ([f"{kind}-{number}" for number in range(6)] for kind in ("plain", "moved"))


def come(name: str) -> Topic:
    """It came from the west, each of its partitions at another offset."""
    extents: dict[int, Any] = {
        number: (
            Extent(cluster="west", start=0, end=100, base=0, writer_epoch=0),
            Extent(cluster="east", start=100, base=10 * number, writer_epoch=1),
        )
        for number in range(3)
    }
    return Topic(name=name, writer="east", partitions=extents)


def named(topics: Any, name: str, parts: str) -> Any:
    """Each topic once, as clients name them."""
    return [
        {name: topic, parts: [part for one in those for part in one[parts]]}
        for topic, those in groupby(topics, key=itemgetter(name))
    ]


class Client:
    """A client whose requests are answered one by one."""

    def __init__(self, *topics: Topic) -> None:
        self.talk = Talk(state(*topics), Port("east", 1))
        self.sequence = self.epoch = 0

    def sends(self, key: int, version: int, client: str, body: dict[str, Any], cut: int = 0) -> bool:
        """True if it is forwarded without being decoded.

        :param cut: bytes of its end that come later.
        """
        talk = self.talk
        talk.correlation += 1
        data = bytearray(encode_request(key, version, talk.correlation, client, encode(key, version, "request", body)))
        talk.versions.append((talk.correlation, key, version))
        come = len(data) - cut
        passed = fast_path.requests(talk.session, data, come, talk.now)
        assert passed in (0, come)
        if passed:
            talk.upstream.setdefault(EAST, bytearray()).extend(data[:come])
            talk.send(bytes(data[come:]))
        else:
            talk.take(talk.session.receive(data, len(data), talk.now))
        return bool(passed)

    def answered(self, body: dict[str, Any]) -> None:
        for asked in self.talk.asked(EAST):
            self.talk.answer(EAST, asked, body)
        self.talk.answers()

    def writes(self, version: int, *parts: tuple[str, int], client: str = "app", cut: int = 0) -> bool:
        self.sequence += 1
        sent = batch(producer_id=CLIENT_PID, epoch=0, sequence=self.sequence, payload=b"v" * 99)
        fast = self.sends(PRODUCE, version, client, produce(*((*part, sent) for part in parts)), cut)
        self.answered(produced(*((*part, 0, 7) for part in parts)))
        return fast

    def reads(self, version: int, session_id: int | None, *parts: tuple[str, int], begins: bool = False) -> bool:
        """:param session_id: of its fetch session; 0: the broker has no room for one; None: it asks for none.
        :param begins: its session begins.
        """
        session = (session_id, self.epoch) if session_id and not begins else (0, -1 if session_id is None else 0)
        self.epoch = session[1] + 1
        body = fetch(*((*part, 200) for part in parts), session=session)
        body["topics"] = named(body["topics"], "topic", "partitions")
        fast = self.sends(FETCH, version, "app", body)
        self.answered(fetched(session_id=session_id or 0))
        return fast


def parts(chance: random.Random, topics: list[str], max_per_move: int) -> list[tuple[str, int]]:
    """Any partitions of some topics, by topic."""
    names = chance.sample(topics, chance.randint(1, min(max_per_move, len(topics))))
    return [(name, number) for name in names for number in chance.sample(range(3), chance.randint(1, 3))]


@given(st.integers(0, 1 << 32), st.sampled_from([3, 7, 8, 9]), st.booleans(), st.sampled_from([1, 6]))
@settings(deadline=None, max_examples=200)
def test_a_produce_to_topics_that_were_written_before_is_not_decoded(
    seed: int, version: int, mapped: bool, most: int
) -> None:
    # Given a producer that has written to some topics, each time to one of them that is mapped, or to any others
    chance, client = random.Random(seed), Client(*map(come, MAPPED))
    seen: set[str] = set()
    for _ in range(9):
        each = parts(chance, MAPPED if mapped else PLAIN, 1 if mapped else most)
        cut = chance.randrange(9) if len(each) == 1 else 0
        # When it writes to some of those again, to any of their partitions in any order
        fast = client.writes(version, *each, cut=cut)
        # Then the request is not decoded, nor does it have to be complete if it has one partition
        assert fast == ({name for name, _ in each} <= seen), each
        seen.update(name for name, _ in each)


@given(st.integers(0, 1 << 32), st.sampled_from([9, 11, 12]), st.booleans(), st.sampled_from([None, 0, 5]))
@settings(deadline=None, max_examples=300)
def test_a_fetch_of_topics_that_were_read_before_is_not_decoded(
    seed: int, version: int, mapped: bool, session: int | None
) -> None:
    # Given a reader outside of any fetch session, in one, or for whose session the broker never has room
    chance, client = random.Random(seed), Client(*map(come, MAPPED))
    topics = MAPPED if mapped else PLAIN
    begun: set[str] | None = None
    """Named at the beginnings of sessions."""
    seen: set[str] | None = None
    """Named by other fetches of this session, or outside of any."""
    for turn in range(7):
        begins = session == 0 or (session == 5 and (turn == 0 or chance.random() < 0.2))
        each = parts(chance, topics, len(topics))
        each = [] if session == 5 and not begins and chance.random() < 0.3 else each
        names, known = {name for name, _ in each}, begun if begins else seen
        # When it fetches topics that it has named before, or none
        fast = client.reads(version, session, *each, begins=begins)
        # Then the fetch is not decoded
        assert fast == (known is not None and names <= known), each
        if begins:
            begun, seen = names | (begun or set()), None
        else:
            seen = names | (seen or set())


def test_the_newest_decisions_are_kept() -> None:
    # Given a client whose requests name more client ids than decisions are cached
    client, names = Client(), [f"app-{number}" for number in range(MAX_DECISIONS + 2)]
    for name in names:
        client.writes(9, ("plain", 0), client=name)
    # Then the newest ones are not decoded
    for name in names[2:]:
        assert client.writes(9, ("plain", 0), client=name), name
    assert not client.writes(9, ("plain", 0), client=names[1])


def test_a_reader_that_alternates_between_mapped_and_other_topics_is_matched_by_both_decisions() -> None:
    # Given a reader of a mapped topic and another one, at times of the latter alone
    client = Client(come("moved"))
    both, one = (("moved", 0), ("plain", 0)), (("plain", 0),)
    for each in (one, both, one):  # the decision for both cannot tell whether a fetch of one needs no patch at all
        client.reads(12, None, *each)
    # When it continues
    for each in (both, one, both, one):
        # Then no fetch is decoded
        assert client.reads(12, None, *each), each
