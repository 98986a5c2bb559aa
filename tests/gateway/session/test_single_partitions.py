"""A topic with single partitions in another cluster, played without I/O: each is judged by its own extents."""

from typing import Any

from gateway.session.commands import BrokerLane
from gateway.session.produce.writer_epochs import WriterEpochs
from gateway.session.snapshot import Port
from ha_core.model import Crossing, Extent, Topic, View
from ha_core.model.producer import upstream_id
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import (
    CLIENT_PID,
    FETCH,
    PRODUCE,
    entry,
    fetch,
    fetched,
    produce,
    produced,
    state,
)
from tests.gateway.session.talk import EAST, WEST, Talk

CUT, BASE = 100, 7
REFUSED = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
STAYED = (Extent(cluster="east", start=0, end=None, base=0, writer_epoch=0),)
MOVED = (
    Extent(cluster="east", start=0, end=CUT, base=0, writer_epoch=0),
    Extent(cluster="west", start=CUT, base=BASE, writer_epoch=1),
)


def mixed(**fields: Any) -> Topic:
    """Partition 0 has stayed in east, 1 is in west."""
    return Topic(name="orders", writer="east", partitions={0: STAYED, 1: MOVED}, **fields)


def crossing(state: str = "open") -> Topic:
    return mixed(crossing=Crossing(operation="m-1", state=state, partitions=(1,)))  # type: ignore[arg-type]


def errors(talk: Talk) -> list[int]:
    talk.wait(0.25)
    return [entry(answer)["error_code"] for answer in talk.answers()]


def test_each_partition_is_written_by_its_own_extents() -> None:
    east, west = Talk(state(mixed()), Port("east", 1)), Talk(state(mixed()), Port("west", 1))
    for talk, partition in ((east, 1), (west, 0)):
        talk.ask(PRODUCE, 9, produce(("orders", partition, batch())))
        assert errors(talk) == [REFUSED]
        assert not talk.asked(EAST)
        assert not talk.asked(WEST)
    for talk, node, partition in ((east, EAST, 0), (west, WEST, 1)):
        asked = talk.forwarded(PRODUCE, 9, produce(("orders", partition, batch())), to=node)
        talk.answer(node, asked, produced(("orders", partition, 0, 12)))
        (answer,) = talk.answers()
        assert entry(answer)["base_offset"] == (12 if partition == 0 else CUT + 12 - BASE)


def test_a_reader_of_all_partitions_is_answered_by_both_clusters() -> None:
    talk = Talk(state(mixed()), Port("east", 1))
    body = fetch(("orders", 0, 40))
    body["topics"][0]["partitions"].append({**body["topics"][0]["partitions"][0], "partition": 1, "fetch_offset": 50})
    talk.ask(FETCH, 12, body)
    asked = talk.asked(EAST)
    offsets = {p["partition"]: p["fetch_offset"] for one in asked for p in one.body["topics"][0]["partitions"]}
    assert offsets == {0: 40, 1: 50}, "what partition 1 held before its cut is in east still"


def test_only_the_partition_in_the_crossing_is_held_at_its_cut() -> None:
    talk = Talk(state(crossing()), Port("east", 1))
    for partition, offset in ((0, 900), (1, 90)):
        asked = talk.forwarded(PRODUCE, 9, produce(("orders", partition, batch())), to=EAST)
        talk.answer(EAST, asked, produced(("orders", partition, 0, offset)))
        assert entry(talk.answers()[0])["base_offset"] == offset
    asked = talk.forwarded(PRODUCE, 9, produce(("orders", 1, batch(producer_id=CLIENT_PID))), to=EAST)
    talk.answer(EAST, asked, produced(("orders", 1, 0, CUT + 3)))
    (write,) = talk.asked(BrokerLane("west", 1, lane=1))
    data = write.records
    assert next(batches(data, 0, len(data))).producer_id == upstream_id(CLIENT_PID, 1)


def test_readers_wait_only_at_a_proposed_cut_of_their_own_partition() -> None:
    talk = Talk(state(crossing("proposed")), Port("east", 1))
    asked = talk.forwarded(FETCH, 12, fetch(("orders", 0, CUT + 50)), to=EAST)
    talk.answer(EAST, asked, fetched(("orders", 0, 200, batch(CUT + 50))))
    assert entry(talk.answers()[0])["records"]
    talk.ask(FETCH, 12, fetch(("orders", 1, CUT + 50)))
    assert not talk.asked(EAST)


def test_the_end_of_a_crossing_begins_a_writer_epoch_only_for_the_partitions_that_crossed() -> None:
    writer_epochs = WriterEpochs()
    for revision, topic in enumerate((mixed(), crossing(), mixed()), start=1):
        writer_epochs.follow(View(revision, topics={"orders": topic}), now=float(1000 * revision))
    assert writer_epochs.watched((b"orders", 1), 1, CLIENT_PID, 3001.0)
    assert not writer_epochs.watched((b"orders", 0), 0, CLIENT_PID, 3001.0)
