"""Settings and ACLs that remote topics get from their source topics."""

from collections.abc import Mapping
from typing import Literal

import pytest

from ha_core.flows.filters import Patterns
from ha_core.flows.own_filters import OwnFilter
from ha_core.flows.remote_topics import (
    ALL,
    READ,
    WRITE,
    SettingsRule,
    changes,
    remote_acls,
)
from ha_core.plan.facts.clusters import DescribedSetting, TopicAcl

LEVELS = {"topic": 1, "dynamic-default": 3, "static-broker": 4, "default": 5}


def setting(name: str, level: str, **more: bool) -> DescribedSetting:
    return DescribedSetting(name, f"{name}'s", LEVELS[level], **more)


@pytest.mark.parametrize(("defaults_from", "default"), [("target", None), ("source", "segment.ms's")])
def test_a_topics_settings_are_carried_over_and_defaults_only_from_the_source(
    defaults_from: Literal["source", "target"], default: str | None
) -> None:
    rule = SettingsRule(Patterns.of("x", ("min\\.insync\\.replicas",)), defaults_from)
    found = rule.carried(
        [
            setting("retention.ms", "topic"),
            setting("cleanup.policy", "dynamic-default"),
            setting("segment.ms", "default"),
            setting("min.insync.replicas", "topic"),
            setting("from.file", "static-broker"),
            setting("fixed", "topic", read_only=True),
            setting("secret", "topic", sensitive=True),
        ]
    )
    assert found == {
        "retention.ms": "retention.ms's",
        "cleanup.policy": "cleanup.policy's",
        "segment.ms": default,
    }


def test_an_operators_own_filter_decides_which_settings_are_carried_over() -> None:
    class OnlyRetention:
        def __init__(self, keys: Mapping[str, str]) -> None:
            pass

        def accepts(self, name: str) -> bool:
            return name.startswith("retention.")

    rule = SettingsRule(Patterns.of("x", (".*",)), own=OwnFilter("mine", OnlyRetention))
    found = rule.carried([setting("retention.ms", "topic"), setting("cleanup.policy", "topic")])
    assert found == {"retention.ms": "retention.ms's"}


def test_a_remote_topic_takes_records_that_are_more_than_an_hour_ahead() -> None:
    """Brokers refuse them from Kafka 4.0 on (KIP-1030). A source of Kafka 3.9 may hold some, of producers with wrong
    clocks, and the copy of the partition stood at the first one for good."""
    rule = SettingsRule(Patterns.of("x", ("message\\.timestamp\\.before.*",)))
    source = [setting("message.timestamp.after.max.ms", "default"), setting("retention.ms", "default")]
    found = rule.of_remote(source, {"message.timestamp.after.max.ms", "message.timestamp.before.max.ms"})
    assert found == {"message.timestamp.after.max.ms": str((1 << 63) - 1), "retention.ms": None}
    # Brokers before Kafka 3.6 do not know the settings
    assert rule.of_remote(source, ()) == {"message.timestamp.after.max.ms": None, "retention.ms": None}


def test_only_settings_that_differ_are_changed() -> None:
    wanted = {"retention.ms": "1", "cleanup.policy": "compact", "segment.ms": None, "flush.ms": None}
    there = {"retention.ms": "1", "cleanup.policy": "delete", "segment.ms": "5"}
    assert changes(wanted, there) == {"cleanup.policy": "compact", "segment.ms": None}


@pytest.mark.parametrize(
    ("operation", "allows", "found"),
    [
        (READ, True, READ),
        (8, True, 8),
        (ALL, True, READ),
        (WRITE, True, None),
        (WRITE, False, WRITE),
        (ALL, False, ALL),
    ],
)
def test_an_acl_is_carried_over_without_the_right_to_write(operation: int, allows: bool, found: int | None) -> None:
    acl = TopicAcl("literal", "t", "User:alice", "*", operation, allows)
    carried = list(remote_acls([acl], {"t": "A.t"}))
    assert carried == ([] if found is None else [acl._replace(name="A.t", operation=found)])


def test_acls_of_prefixes_of_all_topics_and_of_other_topics_are_left_out() -> None:
    acls = [
        TopicAcl("prefixed", "t", "User:alice", "*", READ, True),
        TopicAcl("literal", "*", "User:alice", "*", READ, True),
        TopicAcl("literal", "other", "User:alice", "*", READ, True),
    ]
    assert list(remote_acls(acls, {"t": "A.t"})) == []
