"""Operators see the clients of live gateways, and why a client is served where it is."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from stack.harness import Stack
from tests.kit.running import bind, bootstrap, create_topic, switchyard
from tests.kit.waiting import until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("gateway/process/operator_pages.py", "ha_core/operations/engine/gateway_queries.py"),
]


def test_a_connected_client_is_listed_and_its_route_explained(stack: Stack, name: str) -> None:
    # Given a user bound to east, with a producer
    create_topic(bootstrap(stack, "east"), name)
    bind(stack, name, "east")
    producer = Producer({"bootstrap.servers": stack.bootstrap, "client.id": f"HA#{name}#{name}"})
    producer.produce(name, b"x")
    assert producer.flush(30) == 0
    # When the gateways are asked
    listed = switchyard(stack, "connections", "--client-id", f"HA#{name}#{name}")["connections"]
    # Then the client is listed with its software, at its broker
    assert {row["software"].partition("/")[0] for row in listed} == {"confluent-kafka-python"}
    assert "east" in {row["cluster"] for row in listed}
    # And all gateways give the same reason
    until(lambda: switchyard(stack, "explain", name, "", name)["agree"], "all gateways follow the binding")
    found = switchyard(stack, "explain", name, "", name)
    assert {answer["leading"]["by"] for answer in found["explanations"]} == {"user"}
    assert {answer["leading"]["cluster"] for answer in found["explanations"]} == {"east"}
    assert len(found["explanations"]) == 2
    # And a disconnected client is not listed any more
    del producer
    until(lambda: not switchyard(stack, "connections", "--client-id", f"HA#{name}#{name}")["connections"], "gone")


def test_a_reader_whose_commits_are_refused_is_shown_with_the_cluster_that_refuses_them(
    stack: Stack, name: str
) -> None:
    # Given a topic only in west, and a reader whose groups keep their offsets in east
    create_topic(bootstrap(stack, "west"), name)
    bind(stack, name, "east")
    until(lambda: switchyard(stack, "explain", name, "", name)["agree"], "all gateways follow the binding")
    # When it commits
    settings = {"bootstrap.servers": stack.bootstrap, "client.id": f"HA#{name}#{name}", "group.id": name}
    reader = Consumer(settings)
    with pytest.raises(KafkaException) as refused:
        reader.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
    reader.close()
    # Then that is refused, and operators see by which cluster
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def refusing() -> set[str | None]:
        found = switchyard(stack, "explain", name, "", name)
        return {answer["leading"]["no_commits_in"] for answer in found["explanations"]}

    until(lambda: refusing() == {"east"}, "all gateways have heard of the topic and say it")
