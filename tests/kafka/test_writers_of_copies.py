"""Brokers refuse writes to a copy past the gateways, until a switch has made it the writer."""

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from confluent_kafka import KafkaError

from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.operations.copies.syncing.passes import sync_mirrors
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.mirror.linking import link_request, plan_link
from ha_core.operations.mirror.unlinking import unlink
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.proposal.requests import make_request
from ha_core.operations.running import engine
from ha_core.plan.mirror.copy_guard import guards, marked
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from tests.kafka.accounts import error_of_writing
from tests.kafka.mirroring import caught_up, copying, wait_until

pytestmark = pytest.mark.stack
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED
Fresh = Callable[[str], str]


@pytest.fixture
def environment(running: Stack, account: SecurityProfile) -> Iterator[Environment]:
    settings = EnvironmentSettings(running.zookeeper, session_timeout_s=6.0)
    with connect(settings, by="test:operator", profiles={"sasl": account}) as opened:
        yield opened


@pytest.fixture
def topic(running: Stack, environment: Environment, fresh: Fresh) -> str:
    """A topic of east that is mirrored to west, with a copied record."""
    name = fresh("orders")
    east, west = admin_of(environment, "east"), admin_of(environment, "west")
    east.create_topics([TopicSpec(name, 1, 1)])
    assert error_of_writing(running, "east", name) is None
    linked = engine.start(environment, plan_link(environment, link_request([name], "east", "west", "a standby")))
    assert engine.resume(environment, linked.id).result == "succeeded"
    mirror = environment.store.load().mirrors[f"{name}@west"]
    ensure_copy_log(west, mirror.log, mirror.log_partitions)
    with copying(east, west, copies_of(mirror, 1)) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 1}), job.statuses, 60)
    return name


def switched(environment: Environment, topic: str, mode: Literal["planned", "forced"]) -> str:
    forced = {"mode": "forced", "unread": "wait", "force": True} if mode == "forced" else {}
    request = make_request([f"topic:{topic}"], "east", "west", reason="drill", include_other_users=True, **forced)
    operation = engine.start(environment, plan(environment, request))
    assert engine.resume(environment, operation.id).result == "succeeded"
    return operation.id


def look(environment: Environment) -> None:
    """Syncs all mirrors and clusters, and again if facts were too old or a cluster did not answer."""
    for _ in range(10):
        syncs = sync_mirrors(environment, ())
        again = ("the next look continues", "is not known")
        if not any(words in finding.reason for part in syncs.parts for finding in part.findings for words in again):
            return
    raise AssertionError([finding.reason for part in syncs.parts for finding in part.findings])


def guarded(admin: Admin, topic: str) -> bool:
    return topic in marked(admin.access_rules() or ())


@pytest.mark.parametrize("mode", ["planned", "forced"])
def test_only_the_copier_writes_to_a_copy_until_the_switch(
    running: Stack, environment: Environment, topic: str, west: Admin, mode: Literal["planned", "forced"]
) -> None:
    # Given a copy that its copier has written to, and only it may
    assert error_of_writing(running, "west", topic) == DENIED
    # When a switch goes to it
    switched(environment, topic, mode)
    # Then it takes writes like any topic, and the new copy does not
    assert error_of_writing(running, "west", topic) is None
    look(environment)
    assert error_of_writing(running, "west", topic) is None
    if mode == "planned":
        assert error_of_writing(running, "east", topic) == DENIED
    # And a late guard is removed by the next sync
    west.add_access_rules(guards([topic]), lambda: None)
    west.await_access_rules(there=guards([topic]))
    assert error_of_writing(running, "west", topic) == DENIED
    look(environment)
    west.await_access_rules(gone=guards([topic]))
    assert error_of_writing(running, "west", topic) is None


def test_copy_is_guarded_again_after_an_undone_switch(environment: Environment, topic: str, west: Admin) -> None:
    # Given a switch that died after admitting writers
    request = make_request([f"topic:{topic}"], "east", "west", reason="drill", include_other_users=True)
    operation = engine.start(environment, plan(environment, request))
    engine.run_task(environment, operation.id, "prepare")
    assert not guarded(west, topic)
    # When it is undone, and mirrors are synced
    assert engine.undo(environment, operation.id).result == "undone"
    look(environment)
    # Then all writers of the copy are denied
    assert guarded(west, topic)


def test_a_copy_that_stays_when_its_mirror_ends_keeps_no_rule_of_it(
    running: Stack, environment: Environment, topic: str, west: Admin
) -> None:
    assert unlink(environment, [topic], "west", "no longer needed")[0].result == "succeeded"
    assert not guarded(west, topic)
    assert error_of_writing(running, "west", topic) is None
