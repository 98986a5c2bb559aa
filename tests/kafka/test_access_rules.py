"""ACLs of two real clusters with authorizers, and those that a mirror copies to its target."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.model import Cluster
from ha_core.operations.copies.syncing.rights import remove_guards
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.mirror.copy_guard import guard, guards
from stack.harness import Stack
from stack.kafka_part import ORDINARY_USER
from stack.memory_store import MemoryStore
from tests.kafka.accounts import error_of_writing, ordinary
from tests.kafka.rules import add, mirrored, of, rule, synced

pytestmark = pytest.mark.stack
READ, WRITE, ALL, DESCRIBE, DESCRIBE_CONFIGS = 3, 4, 2, 8, 10
Fresh = Callable[[str], str]


def test_rules_are_read_back_as_they_were_added(either: Admin, fresh: Fresh) -> None:
    topic = fresh("rules")
    added = {rule(topic, READ), TopicAcl("prefixed", topic, "User:bob", "127.0.0.1", WRITE, False)}
    for _ in range(2):
        add(either, added)
    rules = either.access_rules()
    assert rules is not None
    assert {topic_acl for topic_acl in rules if topic_acl.name == topic} == added


def test_removed_rules_disappear_from_every_broker_and_others_stay(either: Admin, fresh: Fresh) -> None:
    topic = fresh("rules")
    kept, gone = rule(topic, READ), rule(topic, WRITE)
    add(either, {kept, gone})
    # When one is taken away, twice
    for _ in range(2):
        either.remove_access_rules({gone}, lambda: None)
    either.await_access_rules(gone={gone})
    # Then the other one stays
    assert {topic_acl for topic_acl in either.access_rules() or () if topic_acl.name == topic} == {kept}


def test_super_user_is_detected_by_a_deny_rule_without_effect(
    east: Admin, west: Admin, clusters: dict[str, Cluster], running: Stack
) -> None:
    for name, service in (("east", east), ("west", west)):
        assert service.bypasses_rules()
        with Admin(clusters[name], ordinary(running), timeout_s=20) as admin:
            assert not admin.bypasses_rules()


def test_revoked_rights_that_a_mirror_has_brought_go_and_the_targets_own_stay(
    east: Admin, west: Admin, fresh: Fresh
) -> None:
    # Given a mirror that has brought rights to read and to write, and a right of the target
    topic = fresh("revoked")
    for admin in (east, west):
        admin.create_topics([TopicSpec(topic, 1, 1)])
    ann, bob, writes, own = rule(topic, READ), rule(topic, READ, "User:bob"), rule(topic, WRITE), rule(topic, DESCRIBE)
    add(east, {ann, bob, writes})
    add(west, {own})
    store = MemoryStore()
    mirrored(store, topic, remove_revoked_rights=True)
    synced(store, east, west)
    assert of(west, topic) == {ann, bob, writes, own, *guard(topic)}
    # When some are revoked in the source
    east.remove_access_rules({ann, writes}, lambda: None)
    east.await_access_rules(gone={ann, writes})
    found = synced(store, east, west)
    # Then they go in the target, and nothing else does
    assert of(west, topic) == {bob, own, *guard(topic)}
    gone = {change.text.split(":")[1] for change in found.changes}
    assert gone == {"ann may no longer READ", "ann may no longer WRITE"}
    assert [finding.reason.split(" it in ")[0] for finding in found.findings] == ["User:ann may DESCRIBE"]
    remove_guards(west, west.access_rules(), [topic], lambda: None)


def test_mirror_copies_rights_and_denies_all_writers_of_its_copy(
    east: Admin, west: Admin, fresh: Fresh, running: Stack
) -> None:
    # Given a mirrored topic, with rules for it, for a prefix of it, and for another topic
    prefix = fresh("pre")
    topic, other = f"{prefix}-orders", f"{prefix}x"
    for admin in (east, west):
        admin.create_topics([TopicSpec(topic, 1, 1)])
    bob = TopicAcl("prefixed", f"{prefix}-", "User:bob", "*", ALL, True)
    ours = rule(topic, WRITE, f"User:{ORDINARY_USER}")
    add(east, {rule(topic, READ), ours, rule(other, READ), bob})
    store = MemoryStore()
    mirrored(store, topic)
    # When it is brought in sync, twice
    first, second = synced(store, east, west), synced(store, east, west)
    # Then readers and writers have these rights there, on this topic only, and all writers are denied
    assert of(west, prefix) == {
        rule(topic, READ),
        ours,
        rule(topic, READ, "User:bob"),
        rule(topic, WRITE, "User:bob"),
        rule(topic, DESCRIBE, "User:bob"),
        rule(topic, DESCRIBE_CONFIGS, "User:bob"),
        *guard(topic),
    }
    assert len([change for change in first.changes if change.what == "rights"]) == 7
    assert [change for change in second.changes if change.what == "rights"] == []
    # And a right that only the standby gives is reported
    add(west, {rule(topic, READ, "User:eve")})
    third = synced(store, east, west)
    (told,) = [finding.reason for finding in third.findings if finding.what == "rights"]
    assert told.startswith("User:eve may READ it in west only.")
    # And brokers refuse writers until the guard is removed
    assert error_of_writing(running, "west", topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert error_of_writing(running, "east", topic) is None
    remove_guards(west, west.access_rules(), [topic], lambda: None)
    assert error_of_writing(running, "west", topic) is None


def test_guard_without_a_mirror_is_removed_by_the_next_sync(east: Admin, west: Admin, fresh: Fresh) -> None:
    # Given guards in both clusters, placed by a late process, one of them incomplete, and one of a mirror
    topic, half, copied, elses = (fresh(name) for name in ("late", "half", "copied", "elses"))
    for admin in (east, west):
        admin.create_topics([TopicSpec(copied, 1, 1)])
        add(admin, guards([topic, copied]))
        add(admin, [guard(half)[0], guard(elses)[1]])
    store = MemoryStore()
    mirrored(store, copied)
    # When the pair is synced
    synced(store, east, west)
    # Then they are gone, except for the mirror's guard and foreign deny rules
    for admin, left in ((east, []), (west, [copied])):
        assert [name for name in (topic, half, copied) if of(admin, name)] == left
        assert of(admin, elses) == {guard(elses)[1]}
        admin.remove_access_rules([guard(elses)[1]], lambda: None)


def test_foreign_deny_rule_is_reported_and_kept(east: Admin, west: Admin, fresh: Fresh) -> None:
    topic = fresh("elses")
    for admin in (east, west):
        admin.create_topics([TopicSpec(topic, 1, 1)])
    add(west, [guard(topic)[1]])
    store = MemoryStore()
    mirrored(store, topic)
    sync = synced(store, east, west)
    assert any(
        "a rule that is no guard" in finding.reason for finding in sync.findings if finding.about == f"topic {topic}"
    )
    assert remove_guards(west, west.access_rules(), [topic], lambda: None) == []
    assert of(west, topic) == {guard(topic)[1]}
