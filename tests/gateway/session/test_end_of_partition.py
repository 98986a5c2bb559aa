"""No answer ends a partition too early: a high watermark equal to the position means its end."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.session.commands import BrokerLane
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import Crossing, Extent, Topic
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, entry, fetch, fetched, moved, state
from tests.gateway.session.talk import EAST, WEST, Talk

NOTHING: dict[str, Any] = {"session_id": 0, "responses": []}


def reader(topic: Topic, offset: int, snapshot: Snapshot | None = None) -> Talk:
    """A client that has just fetched from `offset` of `orders`."""
    talk = Talk(snapshot or state(topic), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, offset)))
    return talk


def marks(talk: Talk) -> tuple[int, int]:
    (answer,) = talk.answers()
    found = entry(answer)
    assert (found["error_code"], found["records"]) == (ErrorCode.NONE, b"")
    return found["high_watermark"], found["last_stable_offset"]


def closed_by_force() -> Topic:
    """Cut far above any offset that the dead origin can have had: its log's true end is not known yet."""
    before, after = moved(1000, 7).partitions[0]
    return Topic(name="orders", writer="west", partitions={0: (before.changed(known_end=150), after)})


def crossing(state: str) -> Topic:
    return moved(1000, 7).model_copy(update={"writer": "east", "crossing": Crossing(operation="m-1", state=state)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answer",
    [
        fetched(("orders", 0, 40, b""), error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        NOTHING,
        None,
    ],
    ids=["another leader", "no answer", "lost"],
)
def test_an_unavailable_old_cluster_does_not_end_the_partition(answer: dict[str, Any] | None) -> None:
    # Given a reader at 40 of an extent that goes to 100
    talk = reader(moved(100, 7), 40)
    (request,) = talk.asked(EAST)
    # When the old cluster does not serve it
    if answer is None:
        talk.lose(EAST)
    else:
        talk.answer(EAST, request, answer)
    talk.wait(1.0)
    # Then more is to come
    assert marks(talk) == (100, 100)


def test_an_old_cluster_known_to_be_unreachable_does_not_end_the_partition() -> None:
    found = state(moved(100, 7))
    clusters = dict(found.topology.clusters)
    clusters["east"] = replace(clusters["east"], reachable=False)
    talk = reader(moved(100, 7), 40, replace(found, topology=replace(found.topology, clusters=clusters)))
    talk.wait(1.0)
    assert marks(talk) == (100, 100)


GONE = fetched(("orders", 0, -1, b""), error=ErrorCode.OFFSET_OUT_OF_RANGE)
AT_150 = fetched(("orders", 0, 150, b""))
ENDS: dict[str, tuple[Topic, int, BrokerLane, dict[str, Any] | None, int]] = {
    "a dead cluster's log ends": (closed_by_force(), 150, EAST, AT_150, 1000),
    "a dead cluster's records were not given up yet": (closed_by_force(), 150, EAST, GONE, 1000),
    "the log has not reached its cut": (crossing("open"), 150, EAST, AT_150, 150),
    "the cut may still rise": (crossing("proposed"), 1000, EAST, None, -1),
    "the new log's start is looked up": (moved(100, 7), 100, WEST, GONE, -1),
}


@pytest.mark.parametrize(("topic", "offset", "lane", "answer", "end"), ENDS.values(), ids=ENDS)
def test_the_end_is_the_partitions_or_unknown_while(
    topic: Topic, offset: int, lane: BrokerLane, answer: dict[str, Any] | None, end: int
) -> None:
    talk = reader(topic, offset)
    if answer is not None:
        talk.broker_answers(lane, answer)
    talk.wait(1.0)
    assert marks(talk) == (end, end)


def test_a_batch_that_straddles_a_cut_is_not_the_end_of_the_partition() -> None:
    talk = reader(moved(100, 7), 99)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 102, batch(98, count=4))))
    found = entry(talk.answers()[0])
    assert found["error_code"] == ErrorCode.NONE
    assert not found["records"]
    assert found["high_watermark"] != 99


def test_a_client_that_claims_to_be_a_broker_is_refused_as_for_a_missing_right() -> None:
    # Given an unmoved topic and one that was moved
    for topics in ((), (moved(100, 7),)):
        talk = Talk(state(*topics), Port("west", 1))
        # When a fetch names a replica
        talk.ask(FETCH, 12, fetch(("orders", 0, 3)) | {"replica_id": 1})
        # Then no broker sees it
        assert not talk.asked(WEST)
        assert not talk.asked(EAST)
        assert entry(talk.answers()[0])["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("offset", "lane"), [(150, WEST), (250, EAST)], ids=["merged", "streamed"])
def test_every_offset_and_node_id_of_an_answer_is_the_clients(offset: int, lane: BrokerLane) -> None:
    # Given a partition that went to the west, where it is read from an old extent, and came back; client offsets are 93
    # apart from those of both logs
    old, west = moved(100, 7).partitions[0]
    away, back = west.changed(end=200), Extent(cluster="east", start=200, base=107, writer_epoch=2)
    talk = Talk(state(Topic(name="orders", writer="east", partitions={0: (old, away, back)})), Port("east", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, offset)))
    # When the broker returns a diverging epoch, a snapshot's end, and the partition's leader
    answer = fetched(("orders", 0, offset - 93, b""))
    entry(answer).update(
        diverging_epoch={"epoch": 3, "end_offset": 20},
        current_leader={"leader_id": 1, "leader_epoch": 4},
        snapshot_id={"end_offset": 30, "epoch": 2},
    )
    talk.answer(lane, talk.asked(lane)[0], answer)
    # Then
    found = entry(talk.answers()[0])
    assert found["diverging_epoch"] == {"epoch": 3, "end_offset": 113}
    assert found["current_leader"] == {"leader_id": -1, "leader_epoch": -1}
    assert found["snapshot_id"] == {"end_offset": 123, "epoch": 2}
