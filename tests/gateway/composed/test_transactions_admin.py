"""Producers and transactions, as administrators see them."""

from __future__ import annotations

from typing import Any

from gateway.composed import Ask, Broker, Coordinator
from gateway.composed.transactions_admin import describe_producers, describe_transactions, list_transactions
from ha_core.model import UserBindings
from ha_core.model.producer import FIRST_CLIENT_ID, upstream_id
from ha_core.wire.codes import ApiKey
from tests.gateway.composed.playbook import Playbook, away, moved, requested, world

WEST = UserBindings(user="alice", cluster="west")


def test_producers_of_a_moved_topic_are_those_of_the_writer_under_the_ids_that_clients_use() -> None:
    context = world(west={"orders": {0: 2}}, topics=(moved(),), port=("east", 1))
    topics = [{"name": "orders", "partition_indexes": [0]}]
    play = Playbook(describe_producers(context, 0, requested(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)))

    play.asked(("west", Broker(2), ApiKey.DESCRIBE_PRODUCERS)).message("west", topics=topics)
    producers = [
        {"producer_id": upstream_id(FIRST_CLIENT_ID + 5, 1), "last_sequence": 9},
        {"producer_id": 12, "current_txn_start_offset": 44},
    ]
    partitions = [{"partition_index": 0, "active_producers": producers}]
    play.answers({"west": {"topics": [{"name": "orders", "partitions": partitions}]}})

    (partition,) = play.encodes(ApiKey.DESCRIBE_PRODUCERS, 0)["topics"][0]["partitions"]
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


def test_transactions_of_all_brokers_are_listed_and_a_broker_that_fails_is_said() -> None:
    play = Playbook(list_transactions(world(), 1, requested(ApiKey.LIST_TRANSACTIONS, 1)))

    play.answers(
        {
            "east": lambda ask: (
                away("east") if ask.target == Broker(2) else {"transaction_states": [{"transactional_id": "a"}]}
            )
        }
    )

    answer = play.encodes(ApiKey.LIST_TRANSACTIONS, 1)
    assert (answer["error_code"], [s["transactional_id"] for s in answer["transaction_states"]]) == (15, ["a"])


def test_brokers_nodes_list_no_transactions() -> None:
    play = Playbook(list_transactions(world(port=("east", 1)), 1, requested(ApiKey.LIST_TRANSACTIONS, 1)))

    assert play.result["transaction_states"] == []
