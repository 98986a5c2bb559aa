"""Readers at a cut while the target's leader is unknown, changes or dies: the gateway looks for it, unseen by readers.

METADATA names the origin while the cut lies ahead. A reader that looked for another leader would find the same one, and
stop.
"""

from dataclasses import replace
from typing import Any

import pytest

from gateway.session.answers import LONG_POLL_MS
from gateway.session.commands import BrokerLane, Drop, FindLeaders, Refresh
from gateway.session.fetch.handle import STALE_DELAY_S
from gateway.session.pending import Discarded
from gateway.session.snapshot import Port
from gateway.session.upstream import Upstream
from ha_core.model import Extent, Topic
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.crossings import BASE, CUT, cut_at, settled, topic
from tests.gateway.session.messages import FETCH, PRODUCE, fetch, fetched, moved, produce, state
from tests.gateway.session.talk import EAST, WEST, Talk, topology

LEADERS: dict[str, dict[int, int]] = {"orders": {0: 1}, "other": {0: 1}}
LOOKS_FOR_ORDERS = FindLeaders("west", frozenset({"orders"}))
MOVED_ON = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH,
)


def without_target_leader(*topics: Topic, west: dict[int, int] | None = None) -> Any:
    return replace(state(*topics), topology=topology(east=LEADERS, west={} if west is None else {"orders": west}))


def told(talk: Talk) -> dict[str, tuple[int, int]]:
    """Topic → (error, bytes of records) in the one answer since the last call."""
    (answer,) = talk.answers()
    partitions = [
        (response["topic"], partition) for response in answer["responses"] for partition in response["partitions"]
    ]
    return {name: (partition["error_code"], len(partition["records"])) for name, partition in partitions}


# -- the leader is unknown ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("west", [None, {0: -1}], ids=["the topic is new there", "it is being elected"])
def test_a_reader_at_a_cut_waits_without_an_error_while_the_targets_leader_is_looked_up(west: Any) -> None:
    talk = Talk(without_target_leader(topic(), west=west))
    talk.ask(FETCH, 12, fetch(("orders", 0, CUT)))
    # Then the gateway looks, and the client gets no error that would make it ask METADATA, which names the origin
    assert LOOKS_FOR_ORDERS in talk.others
    assert not talk.answers()
    talk.wait(STALE_DELAY_S)
    assert told(talk) == {"orders": (0, 0)}
    # When the leader is found, the next fetch reads there
    talk.follow(replace(talk.session.context.snapshot, topology=state().topology))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, CUT)), to=WEST)
    assert request.partition["fetch_offset"] == BASE


def test_a_target_without_a_leader_is_looked_up_also_while_other_partitions_are_read() -> None:
    talk = Talk(without_target_leader(topic()))
    talk.ask(FETCH, 12, fetch(("other", 0, 5), ("orders", 0, CUT)))
    assert LOOKS_FOR_ORDERS in talk.others
    # Then the other partition's records are not held up
    (request,) = talk.asked(EAST)
    assert request.body["max_wait_ms"] <= 1000 * STALE_DELAY_S
    talk.answer(EAST, request, fetched(("other", 0, 6, batch(5))))
    assert told(talk) == {"orders": (0, 0), "other": (0, len(batch(5)))}


def test_an_old_cluster_without_a_leader_is_looked_up_also_while_other_partitions_are_read() -> None:
    # Given a reader below a former cut, whose old cluster elects a leader
    known = topology(east={"orders": {0: -1}}, west=LEADERS)
    talk = Talk(replace(state(moved(CUT, BASE)), topology=known), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("other", 0, 5), ("orders", 0, CUT - 1)))
    assert FindLeaders("east", frozenset({"orders"})) in talk.others
    talk.broker_answers(WEST, fetched(("other", 0, 6, batch(5))))
    assert told(talk) == {"orders": (0, 0), "other": (0, len(batch(5)))}


def test_an_unreachable_target_is_not_looked_up_by_every_fetch() -> None:
    known = state(topic())
    away = replace(known.topology.clusters["west"], reachable=False)
    talk = Talk(replace(known, topology=replace(known.topology, clusters={**known.topology.clusters, "west": away})))
    talk.ask(FETCH, 12, fetch(("orders", 0, CUT)))
    talk.wait(0.5)
    assert told(talk) == {"orders": (0, 0)}
    assert not {LOOKS_FOR_ORDERS, Refresh()}.intersection(talk.others)


def test_after_a_crossing_the_client_looks_for_the_leader_since_metadata_names_the_target() -> None:
    talk = Talk(replace(settled(), topology=topology(east=LEADERS)))
    talk.ask(FETCH, 12, fetch(("orders", 0, CUT)))
    talk.wait(0.5)
    assert told(talk) == {"orders": (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), 0)}


def test_a_reader_at_a_proposed_cut_is_answered_soon_to_look_again() -> None:
    talk = Talk(state(topic("proposed")))
    talk.ask(FETCH, 12, fetch(("orders", 0, CUT)))
    assert not talk.answers()
    talk.wait(STALE_DELAY_S)
    assert told(talk) == {"orders": (0, 0)}


# -- the leader changes, or dies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", MOVED_ON)
def test_a_change_of_the_targets_leader_is_hidden_from_a_reader_at_a_cut(error: ErrorCode) -> None:
    talk = Talk(state(topic()))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, CUT)), to=WEST)
    talk.answer(WEST, request, fetched(("orders", 0, -1, b""), error=int(error)))
    assert Refresh() in talk.others
    talk.wait(STALE_DELAY_S)
    assert told(talk) == {"orders": (0, 0)}
    # When the gateway knows the new one, the next fetch reads there
    talk.follow(replace(talk.session.context.snapshot, topology=topology(east=LEADERS, west={"orders": {0: 2}})))
    talk.ask(FETCH, 12, fetch(("orders", 0, CUT)))
    assert len(talk.asked(BrokerLane("west", 2))) == 1


def test_a_target_that_dies_does_not_break_its_readers_connection() -> None:
    talk = Talk(state(topic()))
    talk.ask(FETCH, 12, fetch(("orders", 0, CUT)))
    assert len(talk.asked(WEST)) == 1
    talk.lose(WEST)
    talk.wait(STALE_DELAY_S)
    assert talk.closed is None
    assert Refresh() in talk.others
    assert told(talk) == {"orders": (0, 0)}


def test_a_reader_on_a_port_of_the_target_reads_at_the_leader_and_not_at_the_ports_broker() -> None:
    # Given a reader on the port of a broker in the target that no longer leads the partition
    known = topology(east=LEADERS, west={"orders": {0: 2}})
    talk = Talk(replace(state(topic()), topology=known), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, CUT)))
    # Then that broker is not asked again and again, with an error that the client does not see
    assert not talk.asked(WEST)
    assert len(talk.asked(BrokerLane("west", 2))) == 1


# -- readers that wait while the map changes ------------------------------------------------------------------------


def polls(talk: Talk, wait_ms: int) -> None:
    """The client waits for records, by a poll that its broker may hold for this long."""
    talk.ask(FETCH, 12, {**fetch(("orders", 0, 50)), "max_wait_ms": wait_ms, "min_bytes": 100_000})
    assert len(talk.asked(EAST)) == 1


def at_home(**fields: Any) -> Topic:
    """The topic's map before any move."""
    return Topic(
        name="orders",
        writer="east",
        partitions={0: (Extent(cluster="east", start=0, base=0, writer_epoch=0),)},
        **fields,
    )


def test_a_poll_continues_when_its_topic_gets_a_map_that_keeps_its_place() -> None:
    talk = Talk(state())
    polls(talk, 2000)
    talk.follow(state(at_home(), revision=2))
    assert not talk.answers()


def test_a_poll_continues_when_partitions_of_its_topic_that_are_read_elsewhere_change() -> None:
    home, away = at_home().partitions[0], cut_at(CUT, None).partitions[0]
    talk = Talk(state(at_home().model_copy(update={"partitions": {0: home, 1: away}})))
    polls(talk, 2000)
    # When the old extent of another partition, which was read in the other cluster, is dropped
    talk.follow(state(at_home().model_copy(update={"partitions": {0: home, 1: away[1:]}}), revision=2))
    assert not talk.answers()
    # And when that partition comes back, which the poll did not read
    back = (*away, Extent(cluster="east", start=CUT + 5, base=CUT + 5, writer_epoch=2))
    talk.follow(state(at_home().model_copy(update={"partitions": {0: home, 1: back}}), revision=3))
    assert not talk.answers()


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("crossing", ["proposed", None])
def test_a_poll_ends_when_its_topic_gets_a_cut(mapped: bool, crossing: str | None) -> None:
    talk = Talk(state(*([at_home()] if mapped else [])))
    polls(talk, 2000)
    talk.follow(state(topic(crossing), revision=2))
    assert talk.answers()[0]["responses"] == []


def test_a_poll_ends_when_its_topic_gets_a_map_that_changes_its_place() -> None:
    talk = Talk(state(), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 50)))
    talk.follow(state(at_home(), revision=2))
    assert talk.answers()[0]["responses"] == []


@pytest.mark.parametrize("fast", [False, True])
def test_the_fetch_after_an_abandoned_long_poll_does_not_wait_for_it(fast: bool) -> None:
    talk = Talk(state(), fast=fast)
    polls(talk, 2000)
    talk.answer(EAST, *answered(talk))
    polls(talk, 2000)
    talk.follow(state(topic("proposed"), revision=2))
    # Then the connection on which the broker still holds the poll is closed, and the next fetch uses another one
    assert talk.others.count(Drop(EAST)) == 1
    assert EAST not in talk.session.upstreams
    assert len(talk.answers()) == 2
    talk.ask(FETCH, 12, fetch(("orders", 0, 50)))
    assert len(talk.asked(EAST)) == 1
    assert len(talk.session.upstreams[EAST].queue) == 1


def answered(talk: Talk) -> tuple[Any, dict[str, Any]]:
    """The broker's answer to the poll in flight."""
    pending = talk.session.upstreams[EAST].queue[0]
    request = pending.request
    asked: Any = (request.api_key, request.api_version, request.correlation_id, {})
    return asked, fetched(("orders", 0, 51, batch(50)))


def test_an_abandoned_short_poll_is_awaited() -> None:
    talk = Talk(state())
    polls(talk, LONG_POLL_MS)
    talk.follow(state(topic("proposed"), revision=2))
    assert Drop(EAST) not in talk.others
    assert discards(talk.session.upstreams[EAST]) == 1


def test_a_connection_with_another_request_in_flight_outlives_an_abandoned_poll() -> None:
    talk = Talk(state())
    polls(talk, 2000)
    talk.ask(PRODUCE, 9, produce(("other", 0, batch())))
    talk.follow(state(topic("proposed"), revision=2))
    assert Drop(EAST) not in talk.others
    assert discards(talk.session.upstreams[EAST]) == 1


def discards(upstream: Upstream) -> int:
    return sum(isinstance(pending, Discarded) for pending in upstream.queue)
