"""Names of remote and internal topics."""

import pytest

from ha_core.flows.policies import (
    BY_CLASS,
    DefaultPolicy,
    IdentityPolicy,
    hops,
    is_cycle,
    is_heartbeats_topic,
    original_topic,
)

DEFAULT = DefaultPolicy()


def test_a_remote_topic_begins_with_its_sources_alias() -> None:
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
def test_a_name_shows_the_path_of_its_topic(
    topic: str, source: str | None, upstream: str | None, original: str
) -> None:
    assert DEFAULT.topic_source(topic) == source
    assert DEFAULT.upstream_topic(topic) == upstream
    assert original_topic(DEFAULT, topic) == original


def test_hops_are_listed_from_the_last_to_the_first() -> None:
    assert list(hops(DEFAULT, "C.B.A.t")) == [("C", "B.A.t"), ("B", "A.t"), ("A", "t")]


def test_hops_end_before_an_alias_repeats() -> None:
    assert [source for source, _ in hops(DEFAULT, "A.B.A.t")] == ["A", "B"]


@pytest.mark.parametrize(
    ("separator", "separates_internal", "syncs", "checkpoints"),
    [
        (".", True, "mm2-offset-syncs.A.internal", "A.checkpoints.internal"),
        ("_", True, "mm2-offset-syncs_A_internal", "A_checkpoints_internal"),
        ("_", False, "mm2-offset-syncs.A.internal", "A.checkpoints.internal"),
    ],
)
def test_internal_topics_use_the_separator_unless_that_is_disabled(
    separator: str, separates_internal: bool, syncs: str, checkpoints: str
) -> None:
    policy = DefaultPolicy(separator, separates_internal)
    assert policy.offset_syncs_topic("A") == syncs
    assert policy.checkpoints_topic("A") == checkpoints
    assert policy.is_checkpoints_topic(checkpoints)
    assert policy.is_internal_topic(checkpoints)
    assert policy.is_internal_topic(syncs)


@pytest.mark.parametrize(
    ("topic", "internal", "in_3_9"),
    [
        ("__consumer_offsets", True, True),
        (".hidden", True, True),
        ("mm2-offsets.A.internal", True, True),
        ("mm2-offset-syncs.A.internal", True, True),
        ("A.checkpoints.internal", True, True),
        ("mm2.internal", True, True),
        ("x.mm2-a.internal", False, True),
        ("orders.internal", False, True),
        ("orders-internal", False, True),
        ("connect-configs", False, False),
        ("A.heartbeats", False, False),
        ("_schemas", False, False),
    ],
)
def test_internal_topics_are_those_of_kafka_4_or_3_9(topic: str, internal: bool, in_3_9: bool) -> None:
    assert DEFAULT.is_internal_topic(topic) is internal
    assert DefaultPolicy(like_3_9=True).is_internal_topic(topic) is in_3_9


def test_a_separator_may_have_several_characters() -> None:
    policy = DefaultPolicy("ab")
    assert (policy.topic_source("xabba"), policy.upstream_topic("xabba")) == ("x", "ba")
    assert policy.is_internal_topic("mm2xabinternal")
    assert not policy.is_internal_topic("mm2x.internal")


@pytest.mark.parametrize(("topic", "heartbeats"), [("heartbeats", True), ("B.A.heartbeats", True), ("A.beats", False)])
def test_a_heartbeats_topic_is_recognised_by_its_original_name(topic: str, heartbeats: bool) -> None:
    assert is_heartbeats_topic(DEFAULT, topic) is heartbeats


def test_a_topic_that_was_in_the_target_is_a_cycle() -> None:
    assert is_cycle(DEFAULT, "B.A.orders", "A")
    assert is_cycle(DEFAULT, "B.A.orders", "B")
    assert not is_cycle(DEFAULT, "B.A.orders", "C")
    assert not is_cycle(DEFAULT, "orders", "A")


def test_the_identity_policy_keeps_all_names_except_those_of_heartbeats() -> None:
    policy = IdentityPolicy(source_alias="A")
    assert policy.format_remote_topic("A", "orders") == "orders"
    assert policy.topic_source("orders") == "A"
    assert policy.upstream_topic("orders") == "orders"
    assert policy.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert policy.topic_source("A.heartbeats") == "A"
    assert policy.upstream_topic("A.heartbeats") == "heartbeats"
    assert original_topic(policy, "B.A.heartbeats") == "heartbeats"
    assert IdentityPolicy().topic_source("orders") is None


def test_policies_are_found_by_their_java_names() -> None:
    made = {name.rpartition(".")[2]: build("-", False, True, "A") for name, build in BY_CLASS.items()}
    assert made == {
        "DefaultReplicationPolicy": DefaultPolicy("-", False, True),
        "IdentityReplicationPolicy": IdentityPolicy("-", False, True, "A"),
        "LegacyReplicationPolicy": IdentityPolicy("-", False, True, "A"),
    }
