"""Brokers refuse writers of remote topics while guards stand, and only guards of flows are removed."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from ha_core.flows.errors import FlowError
from ha_core.flows.guards import remote_guard
from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.mirror_maker.guarding import guard_remote_topics, remove_remote_guards
from ha_core.model import Cluster
from stack.harness import Stack
from stack.kafka_part import ORDINARY_USER
from tests.kafka.accounts import error_of_writing, ordinary
from tests.kafka.rules import add, of, rule

pytestmark = pytest.mark.stack
WRITE = 4
Fresh = Callable[[str], str]


def made(admin: Admin, topic: str) -> str:
    """A topic that an ordinary user may write."""
    admin.create_topics([TopicSpec(topic, 1, 1)])
    add(admin, {rule(topic, WRITE, f"User:{ORDINARY_USER}")})
    return topic


def test_only_super_users_may_write_to_a_guarded_topic(west: Admin, fresh: Fresh, running: Stack) -> None:
    topic, other = made(west, fresh("A.orders")), made(west, fresh("orders"))
    assert error_of_writing(running, "west", topic) is None
    # When it is guarded, twice
    assert guard_remote_topics(west, [topic]) == [topic]
    assert guard_remote_topics(west, [topic]) == []
    # Then
    assert error_of_writing(running, "west", topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert error_of_writing(running, "west", other) is None
    # And it is open again without the guard
    assert remove_remote_guards(west, [topic, other]) == [topic]
    assert error_of_writing(running, "west", topic) is None
    assert remove_remote_guards(west, [topic]) == []


def test_a_half_placed_guard_is_completed_and_removed(west: Admin, fresh: Fresh) -> None:
    topic = made(west, fresh("A.orders"))
    add(west, [remote_guard(topic).marker])

    assert guard_remote_topics(west, [topic]) == [topic]
    assert of(west, topic) >= {*remote_guard(topic)}

    west.remove_access_rules([remote_guard(topic).rule], lambda: None)
    assert remove_remote_guards(west, [topic]) == [topic]
    assert of(west, topic).isdisjoint(remote_guard(topic))


def test_an_account_that_a_guard_would_deny_places_none(
    clusters: dict[str, Cluster], west: Admin, fresh: Fresh, running: Stack
) -> None:
    topic = made(west, fresh("A.orders"))
    add(west, {rule(topic, WRITE, "User:ann")})
    with Admin(clusters["west"], ordinary(running), timeout_s=20) as admin, pytest.raises(FlowError) as refused:
        guard_remote_topics(admin, [topic])

    assert "is not a super user in west" in str(refused.value)
    assert of(west, topic).isdisjoint(remote_guard(topic))
