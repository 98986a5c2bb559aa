"""A copier whose account is no super user of the target: the guards of its copies spare it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.model import Cluster, Mirror
from ha_core.operations.copies.syncing.rights import remove_guards
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.mirror.copy_guard import guard, marked
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from stack.kafka_part import ORDINARY_USER
from stack.memory_store import MemoryStore
from tests.kafka.accounts import another, error_of_writing, ordinary
from tests.kafka.mirroring import caught_up, copying, wait_until
from tests.kafka.rules import add, mirrored, of, rule, synced

pytestmark = pytest.mark.stack
READ, WRITE, ALL = 3, 4, 2
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED
Fresh = Callable[[str], str]
COPIER = f"User:{ORDINARY_USER}"


@pytest.fixture
def ann(running: Stack, fresh: Fresh) -> SecurityProfile:
    return another(running, "west", fresh("ann"))


@pytest.fixture
def bob(running: Stack, fresh: Fresh) -> SecurityProfile:
    return another(running, "west", fresh("bob"))


@pytest.fixture
def topic(east: Admin, west: Admin, fresh: Fresh) -> str:
    name = fresh("orders")
    for admin in (east, west):
        admin.create_topics([TopicSpec(name, 1, 1)])
    return name


def copied(running: Stack, east: Admin, copier: Admin, mirror: Mirror, records: int) -> None:
    """Waits until the copier has copied this number of records in total."""
    assert error_of_writing(running, "east", mirror.topic) is None
    with copying(east, copier, copies_of(mirror, 1)) as job:
        wait_until(lambda: caught_up(job, {(mirror.topic, 0): records}), job.statuses, 60)


def test_ordinary_copier_is_the_only_writer_until_the_switch(
    running: Stack,
    east: Admin,
    west: Admin,
    clusters: dict[str, Cluster],
    topic: str,
    ann: SecurityProfile,
    bob: SecurityProfile,
) -> None:
    # Given a copy to which the copier and another user may write, and a right that only the source gives yet
    add(west, {rule(topic, ALL, COPIER), rule(topic, ALL, f"User:{ann.username}")})
    add(east, {rule(topic, ALL, COPIER), rule(topic, WRITE, f"User:{bob.username}")})
    store = MemoryStore()
    mirror = mirrored(store, topic)
    ensure_copy_log(west, mirror.log, mirror.log_partitions)
    with Admin(clusters["west"], ordinary(running), timeout_s=20) as copier:
        copied(running, east, copier, mirror, 1)
        # When it is brought in sync by that account, twice
        first, second = synced(store, east, copier), synced(store, east, copier)
        # Then other writers are denied by name, also those that were added since
        everybody_else = [guard(topic, f"User:{profile.username}") for profile in (ann, bob)]
        assert {topic_acl for topic_acl in of(west, topic) if not topic_acl.allows} == {
            rule for one in everybody_else for rule in one
        }
        assert rule(topic, WRITE, f"User:{bob.username}") in of(west, topic)
        assert [finding for finding in first.findings if finding.about == "cluster west"] == []
        assert [change for change in second.changes if change.what == "rights"] == []
        for account in (ann, bob):
            assert error_of_writing(running, "west", topic, account) == DENIED
        # And the copier continues
        copied(running, east, copier, mirror, 2)
        # When the copy becomes the writer, then both may write
        remove_guards(copier, copier.access_rules(), [topic], lambda: None)
    for account in (ann, bob):
        assert error_of_writing(running, "west", topic, account) is None
    # And no guard is left once all brokers apply the removal
    wait_until(lambda: topic not in marked(west.access_rules() or ()), lambda: of(west, topic), 30)


def test_first_rule_does_not_lock_out_an_ordinary_copier(
    running: Stack, east: Admin, west: Admin, clusters: dict[str, Cluster], topic: str
) -> None:
    # Given a copy without ACLs, open to all accounts, and rights in its source
    add(east, {rule(topic, READ), rule(topic, WRITE), rule(topic, ALL, COPIER)})
    store = MemoryStore()
    mirror = mirrored(store, topic)
    ensure_copy_log(west, mirror.log, mirror.log_partitions)
    with Admin(clusters["west"], ordinary(running), timeout_s=20) as copier:
        # When it is brought in sync by the account that copies
        sync = synced(store, east, copier)
        # Then it gets no right, which is reported, and the copier continues
        assert of(west, topic) == set[TopicAcl]()
        told = " ".join(finding.reason for finding in sync.findings if finding.about == "cluster west")
        assert "the first rule there would deny it" in told
        assert "allow.everyone.if.no.acl.found" in told
        copied(running, east, copier, mirror, 1)


def test_user_denied_in_the_source_stays_denied_after_the_switch(
    running: Stack, east: Admin, west: Admin, clusters: dict[str, Cluster], topic: str, ann: SecurityProfile
) -> None:
    # Given a guard against a user whom the source denies later
    who = f"User:{ann.username}"
    add(west, {rule(topic, WRITE, COPIER), rule(topic, WRITE, who)})
    store = MemoryStore()
    mirrored(store, topic)
    denial = guard(topic, who).rule
    with Admin(clusters["west"], ordinary(running), timeout_s=20) as copier:
        synced(store, east, copier)
        assert error_of_writing(running, "west", topic, ann) == DENIED
        add(east, {denial})
        # When that denial is copied, and the guard is removed
        synced(store, east, copier)
        remove_guards(copier, copier.access_rules(), [topic], lambda: None)
    # Then the denial stays
    assert denial in of(west, topic)
    assert error_of_writing(running, "west", topic, ann) == DENIED


def test_guard_of_a_super_user_is_replaced_by_one_that_spares_the_copier(
    running: Stack, east: Admin, west: Admin, clusters: dict[str, Cluster], topic: str, ann: SecurityProfile
) -> None:
    # Given a copy guarded by an operator who is a super user, while an ordinary account copies
    add(west, {rule(topic, WRITE, COPIER), rule(topic, READ, COPIER), rule(topic, WRITE, f"User:{ann.username}")})
    store = MemoryStore()
    mirror = mirrored(store, topic)
    ensure_copy_log(west, mirror.log, mirror.log_partitions)
    synced(store, east, west, copies=False)
    assert error_of_writing(running, "west", topic) == DENIED
    with Admin(clusters["west"], ordinary(running), timeout_s=20) as copier:
        # When the job that copies brings it in sync, and the operator once more
        sync = synced(store, east, copier)
        synced(store, east, west, copies=False)
        # Then only the copier is spared, which is reported
        assert {topic_acl for topic_acl in of(west, topic) if not topic_acl.allows} == {
            *guard(topic, f"User:{ann.username}")
        }
        assert any("Use one account, or super users" in finding.reason for finding in sync.findings)
        assert error_of_writing(running, "west", topic, ann) == DENIED
        copied(running, east, copier, mirror, 1)


@pytest.mark.parametrize("named", ["", "User:somebody-else"])
def test_copier_whose_profile_does_not_name_a_writer_gets_no_guard_and_writes_no_rule(
    running: Stack, east: Admin, west: Admin, clusters: dict[str, Cluster], topic: str, ann: SecurityProfile, named: str
) -> None:
    # Given a copy with two named writers, and a copier whose profile names neither
    add(west, {rule(topic, ALL, COPIER), rule(topic, ALL, f"User:{ann.username}")})
    store = MemoryStore()
    mirrored(store, topic)
    before = west.access_rules() or frozenset()
    with Admin(clusters["west"], replace(ordinary(running), principal=named), timeout_s=20) as copier:
        # When it is brought in sync by that account
        sync = synced(store, east, copier)
    # Then no rule is added but the one that tells super users, and the finding says what to write where
    assert {topic_acl.name for topic_acl in (west.access_rules() or frozenset()) - before} <= {"switchyard-probe"}
    (told,) = [
        finding.reason for finding in sync.findings if (finding.what, finding.about) == ("rights", "cluster west")
    ]
    assert f"brokers do not refuse {COPIER}" in told or f"brokers do not refuse User:{ann.username}" in told
    assert f"name it in the job's security profile {clusters['west'].security} (`principal: User:NAME`)" in told
    assert error_of_writing(running, "west", topic, ann) is None


def test_guards_that_a_wrong_principal_would_turn_against_the_copier_are_removed(
    running: Stack, east: Admin, west: Admin, clusters: dict[str, Cluster], topic: str, ann: SecurityProfile
) -> None:
    # Given a copy with two named writers, and a copier whose profile names the other one
    add(west, {rule(topic, ALL, COPIER), rule(topic, ALL, f"User:{ann.username}")})
    store = MemoryStore()
    mirror = mirrored(store, topic)
    ensure_copy_log(west, mirror.log, mirror.log_partitions)
    with Admin(clusters["west"], replace(ordinary(running), principal=ann.principal), timeout_s=20) as copier:
        # When it is brought in sync by that account
        sync = synced(store, east, copier)
        # Then no guard is left, which is reported with the way out, and the copier continues
        assert topic not in marked(west.access_rules() or ())
        told = " ".join(finding.reason for finding in sync.findings if finding.about == "cluster west")
        assert f"may not write to {topic} under guards that spare {ann.principal}" in told
        assert "Correct `principal` in the job's security profile" in told
        assert [change for change in sync.changes if change.what == "rights"] == []
        copied(running, east, copier, mirror, 1)


def test_new_copier_account_is_spared_instead_of_the_old_one(
    running: Stack, east: Admin, west: Admin, clusters: dict[str, Cluster], topic: str, ann: SecurityProfile
) -> None:
    # Given a copy whose copier has denied others to write, and a new account for the job that is one of them
    add(west, {rule(topic, ALL, COPIER), rule(topic, ALL, f"User:{ann.username}")})
    store = MemoryStore()
    mirror = mirrored(store, topic)
    ensure_copy_log(west, mirror.log, mirror.log_partitions)
    with Admin(clusters["west"], ordinary(running), timeout_s=20) as before:
        copied(running, east, before, mirror, 1)
        synced(store, east, before)
    assert error_of_writing(running, "west", topic, ann) == DENIED
    with Admin(clusters["west"], ann, timeout_s=20) as copier:
        # When the job brings the copy in sync by the new account, twice
        first, second = synced(store, east, copier), synced(store, east, copier)
        # Then the new account copies, which is reported, and the old one may not write
        assert error_of_writing(running, "west", topic) == DENIED
        copied(running, east, copier, mirror, 2)
    assert {topic_acl for topic_acl in of(west, topic) if not topic_acl.allows} == {*guard(topic, COPIER)}
    assert any("kept the account that copies out" in finding.reason for finding in first.findings)
    assert [change for change in second.changes if change.what == "rights"] == []
    assert [finding for finding in second.findings if finding.about == "cluster west"] == []
