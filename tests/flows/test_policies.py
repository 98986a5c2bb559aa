"""Names of remote and internal topics."""

import pytest

from ha_core.flows.policies import (
    BY_CLASS,
    DefaultPolicy,
    IdentityPolicy,
    LegacyPolicy,
    hops,
    is_cycle,
    is_heartbeats_topic,
    original_topic,
)

DEFAULT = DefaultPolicy()


def test_a_remote_topic_has_the_alias_of_its_source_in_front() -> None:
    assert DEFAULT.format_remote_topic("us-west", "orders") == "us-west.orders"
    assert DefaultPolicy("__").format_remote_topic("us-west", "orders") == "us-west__orders"


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("orders", None, None, "orders"),
        ("A.orders", "A", "orders", "orders"),
        ("B.A.orders", "B", "A.orders", "orders"),
        ("A.", None, None, "A."),
        ("A..", None, None, "A.."),
        (".orders", "", "orders", "orders"),
    ],
)
def test_a_name_shows_the_way_of_its_topic(topic: str, source: str | None, upstream: str | None, original: str) -> None:
    assert DEFAULT.topic_source(topic) == source
    assert DEFAULT.upstream_topic(topic) == upstream
    assert original_topic(DEFAULT, topic) == original


def test_hops_are_listed_from_the_last_to_the_first() -> None:
    assert list(hops(DEFAULT, "C.B.A.t")) == [("C", "B.A.t"), ("B", "A.t"), ("A", "t")]


def test_an_alias_that_repeats_ends_the_way() -> None:
    assert [source for source, _ in hops(DEFAULT, "A.B.A.t")] == ["A", "B"]


@pytest.mark.parametrize(
    ("separator", "separates_internal", "syncs", "checkpoints"),
    [
        (".", True, "mm2-offset-syncs.A.internal", "A.checkpoints.internal"),
        ("_", True, "mm2-offset-syncs_A_internal", "A_checkpoints_internal"),
        ("_", False, "mm2-offset-syncs.A.internal", "A.checkpoints.internal"),
    ],
)
def test_internal_topics_take_the_separator_unless_it_is_switched_off_for_them(
    separator: str, separates_internal: bool, syncs: str, checkpoints: str
) -> None:
    policy = DefaultPolicy(separator, separates_internal)
    assert policy.offset_syncs_topic("A") == syncs
    assert policy.checkpoints_topic("A") == checkpoints
    assert policy.is_checkpoints_topic(checkpoints)
    assert policy.is_internal_topic(checkpoints)
    assert policy.is_internal_topic(syncs)


@pytest.mark.parametrize("topic", ["__consumer_offsets", ".hidden", "connect-internal", "mm2-offsets.A.internal"])
def test_topics_of_kafka_connect_and_mirrormaker_are_internal(topic: str) -> None:
    assert DEFAULT.is_internal_topic(topic)


@pytest.mark.parametrize("topic", ["orders", "internal", "internals", "A.heartbeats", "_schemas"])
def test_topics_of_users_and_heartbeats_are_not_internal(topic: str) -> None:
    assert not DEFAULT.is_internal_topic(topic)


@pytest.mark.parametrize(("topic", "heartbeats"), [("heartbeats", True), ("B.A.heartbeats", True), ("A.beats", False)])
def test_heartbeats_are_known_by_their_original_name(topic: str, heartbeats: bool) -> None:
    assert is_heartbeats_topic(DEFAULT, topic) is heartbeats


def test_a_topic_that_was_in_the_target_is_a_cycle() -> None:
    assert is_cycle(DEFAULT, "B.A.orders", "A")
    assert is_cycle(DEFAULT, "B.A.orders", "B")
    assert not is_cycle(DEFAULT, "B.A.orders", "C")
    assert not is_cycle(DEFAULT, "orders", "A")


@pytest.mark.parametrize("kind", [IdentityPolicy, LegacyPolicy])
def test_policies_of_identity_keep_names_but_those_of_heartbeats(kind: type[IdentityPolicy]) -> None:
    policy = kind(source_alias="A")
    assert policy.format_remote_topic("A", "orders") == "orders"
    assert policy.topic_source("orders") == "A"
    assert policy.upstream_topic("orders") == "orders"
    assert policy.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert policy.topic_source("A.heartbeats") == "A"
    assert policy.upstream_topic("A.heartbeats") == "heartbeats"
    assert original_topic(policy, "B.A.heartbeats") == "heartbeats"
    assert kind().topic_source("orders") is None


def test_java_names_give_the_policies() -> None:
    made = {name.rpartition(".")[2]: build("-", False, "A") for name, build in BY_CLASS.items()}
    assert made == {
        "DefaultReplicationPolicy": DefaultPolicy("-", False),
        "IdentityReplicationPolicy": IdentityPolicy("-", False, "A"),
        "LegacyReplicationPolicy": LegacyPolicy("-", False, "A"),
    }
