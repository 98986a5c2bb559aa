"""METADATA: each topic once, from the right cluster, with nothing but gateway addresses."""

from typing import Any

import pytest

from gateway.composed.ask import AnyBroker, Ask
from gateway.composed.handlers import Context, Long
from gateway.composed.metadata import metadata
from ha_core.model import Crossing, Extent, Topic, UserBindings
from ha_core.model.extent import identity
from ha_core.wire.codes import ApiKey
from tests.gateway.composed.described_clusters import ask, cluster, everything
from tests.gateway.composed.playbook import (
    CLUSTER_ID,
    GATEWAY,
    NODES,
    NodesGranted,
    Playbook,
    away,
    moved,
    only_partition,
    only_topic,
    requested,
    world,
)

KEY = ApiKey.METADATA
EAST = ("east", AnyBroker(), KEY)
WEST = ("west", AnyBroker(), KEY)

UNKNOWN, NO_LEADER = 3, 5


def test_a_request_for_no_topics_is_answered_without_a_question() -> None:
    play = NodesGranted(metadata(world(), 9, ask()))

    assert [b["node_id"] for b in play.result["brokers"]] == [1, 2, 11, 12, 21, 22]
    assert play.result["controller_id"] == GATEWAY.node_id
    assert play.result["topics"] == []


def test_every_answer_lists_every_broker_because_librdkafka_drops_connections_to_missing_ones() -> None:
    play = Playbook(metadata(world(east={"a": {0: 1}}), 9, ask("a")))

    play.asked(EAST).answers({"east": cluster("east", a=1)})

    play.wants(("east", 1), ("east", 2), ("west", 1), ("west", 2))


def test_all_node_ids_and_addresses_are_the_gateways() -> None:
    play = NodesGranted(metadata(world(east={"a": {0: 1}}), 9, ask("a")))

    play.asked(EAST).answers({"east": cluster("east", a=1)})

    answer = play.encodes(KEY, 9)
    assert answer["cluster_id"] == CLUSTER_ID
    assert [(b["node_id"], b["host"], b["port"], b["rack"]) for b in answer["brokers"]] == [
        (1, "gw", 19_092, None),
        (2, "gw", 19_093, None),
        (11, "gw", 20_011, "east-1"),
        (12, "gw", 20_012, "east-2"),
        (21, "gw", 20_021, None),
        (22, "gw", 20_022, None),
    ]
    partition = only_partition(answer)
    assert (partition["leader_id"], partition["replica_nodes"]) == (11, [11, 12])
    assert (partition["isr_nodes"], partition["offline_replicas"]) == ([11], [12])


@pytest.mark.parametrize("context", [world(east={"a": {0: 1}}), world(east={"a": {0: 1}}, west={"a": {0: 2}})])
def test_answers_have_no_topic_ids_and_leader_epochs_because_java_ignores_lower_epochs_without_ids(
    context: Context,
) -> None:
    play = NodesGranted(metadata(context, 12, ask("a", version=12)))

    play.answers({"east": cluster("east", a=1)})

    answer = play.encodes(KEY, 12)
    assert only_topic(answer)["topic_id"] == bytes(16)
    assert only_partition(answer)["leader_epoch"] == -1


def test_named_topics_of_two_clusters_are_asked_in_parallel_and_answered_in_the_requests_order() -> None:
    play = NodesGranted(metadata(world(east={"a": {0: 1}, "c": {0: 1}}, west={"b": {0: 2}}), 9, ask("c", "b", "a")))

    play.asked(EAST, WEST)
    play.answers({"east": cluster("east", a=1, c=1), "west": cluster("west", b=2)})

    assert [(t["name"], t["partitions"][0]["leader_id"]) for t in play.result["topics"]] == [
        ("c", 11),
        ("b", 22),
        ("a", 11),
    ]


def test_a_moved_topic_is_led_by_its_writers_brokers_without_leader_epoch() -> None:
    play = NodesGranted(
        metadata(world(east={"orders": {0: 1}}, west={"orders": {0: 2}}, topics=(moved(),)), 9, ask("orders"))
    )

    play.asked(WEST).answers({"west": cluster("west", orders=2)})

    partition = only_partition(play.result)
    assert (partition["leader_id"], partition["leader_epoch"]) == (22, -1)


def test_partitions_added_during_a_crossing_are_shown_after_it() -> None:
    def partitions(crossing: Crossing | None) -> list[tuple[int, int]]:
        topic = Topic(name="a", writer="east", partitions={7: identity("east")}, crossing=crossing)
        play = NodesGranted(metadata(world(east={"a": {0: 1}}, topics=(topic,)), 9, ask("a")))
        play.asked(EAST).answers({"east": cluster("east", a=1)})
        return [
            (partition["partition_index"], partition["leader_id"])
            for partition in only_topic(play.result)["partitions"]
        ]

    # A producer that saw partition 0 would write to it, and be refused until the crossing has ended.
    assert partitions(Crossing(operation="m-1", state="open", partitions=(7,))) == []
    assert partitions(None) == [(0, 11)]


@pytest.mark.parametrize("version", [0, 9])
def test_all_topics_are_listed_once_from_the_cluster_that_serves_them(version: int) -> None:
    bound = UserBindings(user="alice", topics={"both": "west"})
    context = world(east={"both": {0: 1}, "e": {0: 1}}, west={"both": {0: 2}, "w": {0: 2}}, bindings=(bound,))
    request = requested(KEY, 0, topics=[]) if version == 0 else everything()
    play = NodesGranted(metadata(context, version, request))

    play.asked(EAST, WEST).message("east", topics=None, allow_auto_topic_creation=False)
    play.answers({"east": cluster("east", both=1, e=1), "west": cluster("west", both=2, w=2)})

    assert [(t["name"], t["partitions"][0]["leader_id"]) for t in play.encodes(KEY, version)["topics"]] == [
        ("both", 22),
        ("e", 11),
        ("w", 22),
    ]


@pytest.mark.parametrize("gone", ["down", "masked"])
def test_topics_of_an_unreachable_cluster_have_their_last_known_partitions_without_leaders(gone: str) -> None:
    context = world(east={"e": {0: 1}}, west={"w": {0: 2, 1: -1}}, **{gone: "west"})  # type: ignore[arg-type]
    play = NodesGranted(metadata(context, 9, everything()))

    play.asked(EAST).answers({"east": cluster("east", e=1)})

    # Then all of their partitions are listed: a consumer that lost them would give its own away
    east, west = play.encodes(KEY, 9)["topics"]
    assert (east["name"], east["error_code"], west["name"], west["error_code"]) == ("e", 0, "w", 0)
    told = [(p["partition_index"], p["error_code"], p["leader_id"], p["replica_nodes"]) for p in west["partitions"]]
    assert told == [(0, NO_LEADER, -1, [22]), (1, NO_LEADER, -1, [])]


def test_a_named_topic_of_an_unreachable_cluster_has_no_leader_and_no_cluster_is_asked() -> None:
    play = NodesGranted(metadata(world(west={"w": {0: 2}}, down="west"), 9, ask("w")))

    assert only_topic(play.result)["error_code"] == 0
    assert only_partition(play.result)["error_code"] == NO_LEADER


@pytest.mark.parametrize("names", [("w",), None])
def test_a_long_answer_from_memory_is_made_off_the_event_loop(names: tuple[str, ...] | None) -> None:
    # Given a topic of many partitions in a cluster that does not answer
    context = world(east={}, west={"w": dict.fromkeys(range(500), 2)}, down="west")
    play = Playbook(metadata(context, 9, everything() if names is None else ask(*names)))
    if names is None:
        play.asked(EAST).answers({"east": cluster("east")})
    # Then the handler asks for a worker thread before it makes the answer
    assert play.step == Long()
    play.gives(None).wants(*NODES)
    assert len(only_topic(play.result)["partitions"]) == 500


def test_a_topic_that_was_never_seen_gets_a_retriable_error() -> None:
    bound = UserBindings(user="alice", cluster="west")
    play = NodesGranted(metadata(world(down="west", bindings=(bound,)), 9, ask("w")))
    play.answers_all({"east": cluster("east")})

    assert [(t["name"], t["error_code"], t["partitions"]) for t in play.result["topics"]] == [("w", NO_LEADER, [])]


def test_a_cluster_that_fails_during_the_question_is_not_taken_for_one_without_the_topic() -> None:
    play = NodesGranted(metadata(world(east={"a": {0: 1}}), 9, ask("a", "new")))

    play.asked(EAST, WEST).answers({"east": away("east"), "west": cluster("west")})

    assert [(t["name"], t["error_code"]) for t in play.result["topics"]] == [("a", 0), ("new", NO_LEADER)]
    assert play.result["topics"][0]["partitions"][0]["error_code"] == NO_LEADER


def test_a_topic_whose_copy_was_just_deleted_is_not_unknown_while_another_cluster_has_it() -> None:
    # Given a user who is bound to west, where the topic was when last surveyed
    bound = UserBindings(user="alice", cluster="west")
    play = NodesGranted(metadata(world(east={"a": {0: 1}}, west={"a": {0: 2}}, bindings=(bound,)), 9, ask("a")))
    # When west no longer has it
    play.asked(WEST).answers({"west": cluster("west")})
    # Then the client retries, and is routed to the other cluster: librdkafka fails all records for an unknown topic
    assert [(t["name"], t["error_code"]) for t in play.result["topics"]] == [("a", NO_LEADER)]


@pytest.mark.parametrize("holders", [{}, {"east": {"orders": {0: 1, 1: 1}}}])
def test_a_moved_topic_of_an_unreachable_cluster_that_never_had_it_has_the_partitions_of_its_map(
    holders: dict[str, Any],
) -> None:
    play = NodesGranted(metadata(world(**holders, topics=(moved(),), down="west"), 9, ask("orders")))

    topic = only_topic(play.encodes(KEY, 9))
    assert topic["error_code"] == 0
    assert [(p["partition_index"], p["error_code"], p["leader_id"]) for p in topic["partitions"]] == [
        (0, NO_LEADER, -1),
        (1, NO_LEADER, -1),
    ]


def test_a_moved_topic_that_brokers_do_not_know_yet_keeps_its_partitions_without_leaders() -> None:
    # Given a topic that moved to west just now, where a broker does not know it yet
    play = NodesGranted(metadata(world(east={"orders": {0: 1, 1: 1}}, topics=(moved(),)), 9, ask("orders")))
    # When that broker is asked
    play.asked(WEST).answers({"west": cluster("west")})
    # Then no consumer takes the topic's partitions for gone
    topic = only_topic(play.result)
    assert topic["error_code"] == 0
    assert [(p["partition_index"], p["leader_id"]) for p in topic["partitions"]] == [(0, -1), (1, -1)]


def test_a_moved_topic_that_no_cluster_has_is_unknown() -> None:
    play = NodesGranted(metadata(world(west={"orders": {0: 2, 1: 2}}, topics=(moved(),)), 9, ask("orders")))

    play.asked(WEST).answers({"west": cluster("west")})

    assert only_topic(play.result)["error_code"] == UNKNOWN


def test_a_topic_is_unknown_when_every_cluster_reports_so() -> None:
    play = NodesGranted(metadata(world(), 9, ask("new")))

    play.asked(EAST, WEST).answers({"east": cluster("east"), "west": cluster("west")})

    assert [(t["name"], t["error_code"]) for t in play.result["topics"]] == [("new", UNKNOWN)]


def test_an_unknown_topic_is_in_doubt_and_not_created_while_a_cluster_is_unreachable() -> None:
    play = NodesGranted(metadata(world(down="west"), 9, ask("new", create=True)))

    play.asked(EAST).message("east", allow_auto_topic_creation=False).answers({"east": cluster("east")})

    assert [(t["name"], t["error_code"]) for t in play.result["topics"]] == [("new", NO_LEADER)]


def test_a_topic_is_created_while_another_cluster_is_masked() -> None:
    play = NodesGranted(metadata(world(masked="west"), 9, ask("new", create=True)))

    play.asked(EAST).answers({"east": cluster("east")})
    play.asked(EAST).message("east", allow_auto_topic_creation=True).answers({"east": cluster("east")})

    assert only_topic(play.result)["error_code"] == 0


def test_a_topic_is_created_in_its_users_cluster_only_after_all_clusters_lacked_it() -> None:
    play = NodesGranted(
        metadata(world(bindings=(UserBindings(user="alice", cluster="west"),)), 9, ask("new", create=True))
    )

    play.asked(EAST, WEST).message("east", allow_auto_topic_creation=False)
    play.answers({"east": cluster("east"), "west": cluster("west")})
    play.asked(WEST).message("west", allow_auto_topic_creation=True)
    play.answers({"west": cluster("west")})

    assert only_partition(play.result)["leader_id"] == 21


def test_a_topic_just_created_in_another_cluster_is_found_there_and_not_created_again() -> None:
    play = NodesGranted(metadata(world(), 9, ask("new", create=True)))

    play.asked(EAST, WEST).answers({"east": cluster("east"), "west": cluster("west", new=2)})

    assert only_partition(play.result)["leader_id"] == 22


def test_a_topic_just_created_in_its_users_cluster_is_found_there() -> None:
    # Given the survey has seen it in east only, and alice is bound to west
    play = NodesGranted(
        metadata(world(east={"a": {0: 1}}, bindings=(UserBindings(user="alice", cluster="west"),)), 9, ask("a"))
    )

    play.asked(EAST, WEST).answers({"east": cluster("east", a=1), "west": cluster("west", a=2)})

    partition = only_partition(play.result)
    assert (partition["leader_id"], partition["leader_epoch"]) == (22, -1)


def test_a_topic_that_its_users_cluster_lacks_is_served_from_the_cluster_that_has_it() -> None:
    play = NodesGranted(
        metadata(world(east={"a": {0: 1}}, bindings=(UserBindings(user="alice", cluster="west"),)), 9, ask("a"))
    )

    play.asked(EAST, WEST).answers({"east": cluster("east", a=1), "west": cluster("west")})

    assert only_partition(play.result)["leader_id"] == 11


def test_a_partition_without_a_leader_stays_without_one() -> None:
    play = NodesGranted(metadata(world(east={"a": {0: -1}}), 9, ask("a")))

    play.answers({"east": cluster("east", a=-1)})

    partition = only_partition(play.result)
    assert (partition["leader_id"], partition["isr_nodes"]) == (-1, [])


def single() -> Topic:
    """Partition 0 of `orders` has stayed in east, 1 is in west."""
    here = (Extent(cluster="east", start=0, end=None, base=0, writer_epoch=0),)
    return Topic(name="orders", writer="east", partitions={0: here, 1: moved().partitions[1]})


def two(name: str, *leaders: int) -> Any:
    """A cluster that holds `orders` with these leaders."""

    def answer(asked: Ask) -> dict[str, Any]:
        described: dict[str, Any] = cluster(name, orders=1)(asked)
        (topic,) = described["topics"]
        (first,) = topic["partitions"]
        topic["partitions"] = [first | {"partition_index": p, "leader_id": n} for p, n in enumerate(leaders)]
        return described

    return answer


def test_each_partition_is_led_by_its_writers_cluster() -> None:
    context = world(east={"orders": {0: 1, 1: 1}}, west={"orders": {0: 2, 1: 2}}, topics=(single(),))
    play = NodesGranted(metadata(context, 9, ask("orders")))

    play.asked(EAST, WEST).answers({"east": two("east", 1, 2), "west": two("west", 1, 2)})

    partitions = only_topic(play.result)["partitions"]
    assert [(p["partition_index"], p["leader_id"], p["leader_epoch"]) for p in partitions] == [(0, 11, -1), (1, 22, -1)]
    assert [sorted(p["replica_nodes"]) for p in partitions] == [[11, 12], [21, 22]]


@pytest.mark.parametrize(("gone", "leaders"), [("east", [-1, 22]), ("west", [11, -1])])
def test_partitions_of_an_unreachable_cluster_have_no_leader_and_the_others_are_served(
    gone: str, leaders: list[int]
) -> None:
    context = world(east={"orders": {0: 1, 1: 1}}, west={"orders": {0: 2, 1: 2}}, topics=(single(),), down=gone)
    play = NodesGranted(metadata(context, 9, ask("orders")))

    play.answers({"east": two("east", 1, 2), "west": two("west", 1, 2)})

    partitions = only_topic(play.result)["partitions"]
    assert [p["leader_id"] for p in partitions] == leaders
    assert [p["error_code"] for p in partitions] == [NO_LEADER if leader < 0 else 0 for leader in leaders]
