"""Pre-flight verdicts about real brokers: replicas, transactions, and maps without room."""

import time
import uuid

import pytest
from confluent_kafka import Producer

from ha_core.kafka.facts import TopicSpec
from ha_core.model import SwitchOperation
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.proposal.proposal import Proposal, plan
from ha_core.plan.facts.verdict import Verdict
from tests.kit.mirroring import await_copies
from tests.kit.moving import a_move, copiers_of, linked, moved
from tests.kit.stacks import operator
from tests.operations.real_clusters import at

pytestmark = pytest.mark.stack


environment = operator()


@pytest.fixture
def topic(environment: Environment) -> str:
    """One of the east, with one partition and no records."""
    name = f"judged-{uuid.uuid4().hex[:8]}"
    admin_of(environment, "east").create_topics([TopicSpec(name, 1, 1)])
    return name


def transactional(environment: Environment, name: str) -> Producer:
    producer = Producer({**at(environment, "east"), "transactional.id": name, "log_level": 3})
    producer.init_transactions(20)
    return producer


def judged(environment: Environment, topic: str) -> Proposal:
    return plan(environment, a_move(topic))


def verdict(proposal: Proposal, code: str) -> Verdict:
    (found,) = [one for one in proposal.verdicts if one.code == code]
    return found


def test_a_target_topic_with_too_few_replicas_in_sync_is_found_before_anything_moves(
    environment: Environment, topic: str
) -> None:
    # Given a topic of the target that demands more replicas than it has
    west = admin_of(environment, "west")
    west.create_topics([TopicSpec(topic, 1, 1)])
    assert west.alter_settings({topic: {"min.insync.replicas": "2"}}, lambda: None) == {}
    before = environment.store.load()
    # When a move there is proposed
    proposal = judged(environment, topic)
    # Then it is refused, with how many partitions that is, and nothing was changed
    found = verdict(proposal, "not-in-sync")
    assert (found.level, found.number, found.unit) == ("error", 1, "partitions")
    assert "demands 2" in found.text
    assert proposal.to_json()["verdicts"][0]["code"] == "not-in-sync"
    assert environment.store.load() == before
    # And where its brokers ask for one, it is not
    assert west.alter_settings({topic: {"min.insync.replicas": "1"}}, lambda: None) == {}
    assert not judged(environment, topic).refused


def test_an_open_transaction_is_reported_with_its_transactional_id(environment: Environment, topic: str) -> None:
    producer = transactional(environment, f"pay-{topic}")
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush(20)

    found = verdict(judged(environment, topic), "open-transaction")
    assert found.number == 1
    assert f"pay-{topic}" in found.text

    producer.abort_transaction(20)
    until = time.monotonic() + 20
    while "open-transaction" in (codes := {one.code for one in judged(environment, topic).verdicts}):
        assert time.monotonic() < until  # it is told to be over before its markers are written
        time.sleep(0.1)
    assert "transactional" in codes
    assert "hanging-transaction" not in codes


def test_a_switch_leaves_to_the_origin_the_records_that_its_proposal_announced(
    environment: Environment, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a copy of eight runs, with a transaction's marker between any two, where three have room in a map
    for place in ("operations.copies.copy_notes", "plan.preflight.mirrors", "operations.move.switch_steps"):
        monkeypatch.setattr(f"ha_core.{place}.MAX_EXTENTS_AT_ONCE", 3)
    linked(environment, topic)
    producer = transactional(environment, f"gaps-{topic}")
    for number in range(8):
        producer.begin_transaction()
        for _ in range(number + 1):
            producer.produce(topic, b"x")
        producer.commit_transaction(20)
    with copiers_of(environment, {topic: 1}) as copiers, await_copies(copiers, topic, "west"):
        # When a switch to it is proposed, while it is copied, and its copier has noted how far it is
        until = time.monotonic() + 30
        proposal = judged(environment, topic)
        while "no-room-in-map" not in {one.code for one in proposal.verdicts}:
            assert time.monotonic() < until, proposal.verdicts
            time.sleep(0.5)
            proposal = judged(environment, topic)
    # Then the records of the five oldest runs are counted
    found = verdict(proposal, "no-room-in-map")
    assert (found.level, found.number, found.unit) == ("warning", 1 + 2 + 3 + 4 + 5, "records")
    # And so many are read from the origin when it is done
    report = moved(environment, proposal)
    assert report.result == "succeeded"
    ended = environment.operation(report.operation)
    assert isinstance(ended, SwitchOperation)
    assert ended.evidence.left_to_origin == {topic: 15}
