"""Producers and transactions, as administrators see them."""

from typing import Any

from gateway.composed.ask import Ask, Coordinator, OneBroker
from gateway.composed.transactions import describe_producers, describe_transactions, list_transactions
from ha_core.model import UserBindings
from ha_core.model.producer import FIRST_CLIENT_ID, upstream_id
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.playbook import Playbook, away, moved, only_partition, requested, world

WEST = UserBindings(user="alice", cluster="west")
LOADING, NOT_LEADER = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_producers_of_a_moved_topic_are_the_writers_under_the_clients_ids() -> None:
    context = world(west={"orders": {0: 2}}, topics=(moved(),), port=("east", 1))
    topics = [{"name": "orders", "partition_indexes": [0]}]
    play = Playbook(describe_producers(context, 0, requested(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)))

    play.asked(("west", OneBroker(2), ApiKey.DESCRIBE_PRODUCERS)).message("west", topics=topics)
    producers = [
        {"producer_id": upstream_id(FIRST_CLIENT_ID + 5, 1), "last_sequence": 9},
        {"producer_id": 12, "current_txn_start_offset": 44},
    ]
    partitions = [{"partition_index": 0, "active_producers": producers}]
    play.answers({"west": {"topics": [{"name": "orders", "partitions": partitions}]}})

    partition = only_partition(play.encodes(ApiKey.DESCRIBE_PRODUCERS, 0))
    assert [(p["producer_id"], p["last_sequence"]) for p in partition["active_producers"]] == [
        (FIRST_CLIENT_ID + 5, 9),
        (12, -1),
    ]
    assert {p["current_txn_start_offset"] for p in partition["active_producers"]} == {-1}


def test_transactions_are_described_by_their_coordinators_in_the_users_cluster() -> None:
    request = requested(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["a", "b"])
    play = Playbook(describe_transactions(world(bindings=(WEST,)), 0, request))

    play.asked(*(("west", Coordinator("transaction", n), ApiKey.DESCRIBE_TRANSACTIONS) for n in ("a", "b")))

    def west(ask: Ask) -> Any:
        (name,) = ask.message["transactional_ids"]
        return away("west") if name == "b" else {"transaction_states": [{"transactional_id": name}]}

    play.answers({"west": west})
    states = play.encodes(ApiKey.DESCRIBE_TRANSACTIONS, 0)["transaction_states"]
    assert [(s["transactional_id"], s["error_code"]) for s in states] == [("a", 0), ("b", 15)]


def lists(ask: Ask) -> Any:
    return {"transaction_states": [{"transactional_id": f"{ask.cluster}-{ask.target}"}]}


def test_an_admin_client_that_asks_every_node_sees_each_transaction_once() -> None:
    # Given two gateways, and brokers that coordinate one transaction each
    found = []
    for port in (None, None, ("east", 1), ("east", 2), ("west", 1), ("west", 2)):
        # When each node is asked
        play = Playbook(list_transactions(world(port=port), 1, requested(ApiKey.LIST_TRANSACTIONS, 1)))
        while play.waits:
            play.answers({"east": lists, "west": lists})
        found += [s["transactional_id"] for s in play.encodes(ApiKey.LIST_TRANSACTIONS, 1)["transaction_states"]]
    # Then those of the user's cluster are listed once
    assert found == [f"east-{OneBroker(1)}", f"east-{OneBroker(2)}"]


def test_an_unreachable_brokers_node_makes_java_list_its_transactions_again() -> None:
    # COORDINATOR_NOT_AVAILABLE ends ListTransactionsHandler for all nodes
    request = requested(ApiKey.LIST_TRANSACTIONS, 1)
    failing = Playbook(list_transactions(world(port=("east", 2)), 1, request)).answers({"east": away("east")})
    down = Playbook(list_transactions(world(port=("east", 2), down="east"), 1, request))
    assert failing.result["error_code"] == down.result["error_code"] == LOADING


def test_an_unreachable_leader_makes_java_list_the_partitions_producers_again() -> None:
    # DescribeProducersHandler continues only after this error
    topics = [{"name": "orders", "partition_indexes": [0, 1]}]
    context = world(east={"orders": {0: 1, 1: -1}}, port=("east", 1))
    play = Playbook(describe_producers(context, 0, requested(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)))
    while play.waits:
        play.answers({"east": away("east")})
    (answered,) = play.encodes(ApiKey.DESCRIBE_PRODUCERS, 0)["topics"]
    assert [partition["error_code"] for partition in answered["partitions"]] == [NOT_LEADER, NOT_LEADER]
