"""Access rules of two real clusters with authorisers, and what of them a mirror brings to its copy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.model import Document, Mirror
from ha_core.operations.syncing.groups import Memory
from ha_core.operations.syncing.passes import sync
from ha_core.plan.facts import AccessRule
from ha_core.store.commits import Change
from stack.memory_store import MemoryStore

pytestmark = pytest.mark.stack
READ, WRITE, ALL, DESCRIBE, DESCRIBE_CONFIGS = 3, 4, 2, 8, 10
Fresh = Callable[[str], str]


def rule(name: str, operation: int, principal: str = "User:ann") -> AccessRule:
    return AccessRule("literal", name, principal, "*", operation, True)


def test_rules_are_read_back_as_they_were_added(either: Admin, fresh: Fresh) -> None:
    topic = fresh("rules")
    added = {rule(topic, READ), AccessRule("prefixed", topic, "User:bob", "127.0.0.1", WRITE, False)}
    either.add_access_rules(added, lambda: None)
    either.add_access_rules(added, lambda: None)
    found = either.access_rules()
    assert found is not None
    assert {one for one in found if one.name == topic} == added


def test_a_mirror_brings_rights_to_read_to_its_copy_and_none_to_write(east: Admin, west: Admin, fresh: Fresh) -> None:
    # Given a mirrored topic, with rules for it, for a prefix of it, and for another topic
    prefix = fresh("pre")
    topic, other = f"{prefix}-orders", f"{prefix}x"
    for admin in (east, west):
        admin.create_topics([TopicSpec(topic, 1, 1)])
    bob = AccessRule("prefixed", f"{prefix}-", "User:bob", "*", ALL, True)
    east.add_access_rules({rule(topic, READ), rule(topic, WRITE), rule(other, READ), bob}, lambda: None)
    store = MemoryStore()
    mirror = Mirror.of(topic, "east", "west", "link", "2026-01-01T00:00:00Z", "test")
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None}
    store.commit(Change(change_id="link", puts=(mirror,), expected=expected))
    # When it is brought in sync, twice
    first = sync(store.client(), (east, west), "topics", "2026-01-01T00:00:00Z", Memory())
    second = sync(store.client(), (east, west), "topics", "2026-01-01T00:00:00Z", Memory())
    # Then whoever may read may do so there, this topic and nothing else
    rules = west.access_rules()
    assert rules is not None
    assert {one for one in rules if one.name.startswith(prefix)} == {
        rule(topic, READ),
        rule(topic, READ, "User:bob"),
        rule(topic, DESCRIBE, "User:bob"),
        rule(topic, DESCRIBE_CONFIGS, "User:bob"),
    }
    assert len([one for one in first.changes if one.what == "rights"]) == 4
    assert [one for one in second.changes if one.what == "rights"] == []
    # And a right that only the standby gives is told
    west.add_access_rules({rule(topic, READ, "User:eve")}, lambda: None)
    third = sync(store.client(), (east, west), "topics", "2026-01-01T00:00:00Z", Memory())
    (told,) = [one.reason for one in third.findings if one.what == "rights"]
    assert told.startswith("User:eve may READ it in west only.")
