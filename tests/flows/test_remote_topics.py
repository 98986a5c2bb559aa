"""Settings and ACLs of remote topics."""

from typing import Literal

import pytest

from ha_core.flows.filters import Patterns
from ha_core.flows.remote_topics import ConfigSource, SettingsRule, TopicAcl, TopicSetting, changes, remote_acls


def setting(name: str, source: ConfigSource, **more: bool) -> TopicSetting:
    return TopicSetting(name, f"{name}'s", source, **more)


@pytest.mark.parametrize(("defaults_from", "default"), [("target", None), ("source", "segment.ms's")])
def test_settings_of_the_topic_are_carried_and_defaults_as_chosen(
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


def test_only_differences_are_changed() -> None:
    wanted = {"retention.ms": "1", "cleanup.policy": "compact", "segment.ms": None, "flush.ms": None}
    there = {"retention.ms": "1", "cleanup.policy": "delete", "segment.ms": "5"}
    assert changes(wanted, there) == {"cleanup.policy": "compact", "segment.ms": None}


@pytest.mark.parametrize(
    ("operation", "permission", "found"),
    [
        ("READ", "ALLOW", "READ"),
        ("DESCRIBE", "ALLOW", "DESCRIBE"),
        ("ALL", "ALLOW", "READ"),
        ("WRITE", "ALLOW", None),
        ("WRITE", "DENY", "WRITE"),
        ("ALL", "DENY", "ALL"),
    ],
)
def test_an_acl_is_carried_without_the_right_to_write(operation: str, permission: str, found: str | None) -> None:
    acl = TopicAcl("t", "LITERAL", "User:alice", "*", operation, permission)
    carried = list(remote_acls([acl], {"t": "A.t"}))
    assert carried == ([] if found is None else [acl._replace(topic="A.t", operation=found)])


def test_acls_of_prefixes_all_topics_and_other_topics_are_left_out() -> None:
    acls = [
        TopicAcl("t", "PREFIXED", "User:alice", "*", "READ", "ALLOW"),
        TopicAcl("*", "LITERAL", "User:alice", "*", "READ", "ALLOW"),
        TopicAcl("other", "LITERAL", "User:alice", "*", "READ", "ALLOW"),
    ]
    assert list(remote_acls(acls, {"t": "A.t"})) == []
