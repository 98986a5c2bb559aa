"""Facts about real clusters: healthy ones are never reported lost, and facts about a stalled one are kept."""

import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition

from ha_core.model import MoveSet
from ha_core.operations.clusters.collect_facts import gather
from ha_core.operations.clusters.inventory import lag_of, overview
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.engine.environment import Environment
from ha_core.plan.preflight.clusters import LIMITS
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import operator

pytestmark = pytest.mark.stack


environment = operator()


def test_a_group_and_a_topic_of_a_paused_cluster_are_shown_as_last_seen(stack: Stack, environment: Environment) -> None:
    # Given a group that has committed in west, and a recording of it
    name = f"ledger-{uuid.uuid4().hex[:6]}"
    create_topic(bootstrap(stack, "west"), name)
    consumer = Consumer({"bootstrap.servers": bootstrap(stack, "west"), "group.id": name, "log_level": 3})
    consumer.commit(offsets=[TopicPartition(name, 0, 7)], asynchronous=False)
    consumer.close()
    record(environment, ["west"])
    assert name in {topic.topic for topic in overview(environment).topics}
    # When its coordinator no longer answers
    stack.pause("cluster/west")
    try:
        lag = lag_of(environment, name)
        topics = overview(environment)
    finally:
        stack.resume("cluster/west")
    # Then its last recorded commits are shown
    (row,) = lag.partitions
    assert (row.topic, row.committed, row.coordinator) == (name, 7, "west")
    assert row.age_s is not None
    assert "west" in lag.unasked
    # And so is its topic, whose records are not known
    (topic,) = [one for one in topics.topics if one.topic == name]
    assert (topic.written_in, topic.partitions, topic.records) == (("west",), 3, None)
    assert "west" in topics.unasked


def test_the_limits_of_brokers_are_read_from_both_clusters(stack: Stack, environment: Environment) -> None:
    view = environment.store.load()
    for name in ("east", "west"):
        facts = gather(environment, view, [name], MoveSet(groups=("billing",))).clusters[name]
        assert facts.limits.keys() == LIMITS.keys()
        assert all(value.isdecimal() for value in facts.limits.values())
