"""Topics get mirrors, by operations that may die anywhere; what is mirrored stays where it is."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import cast

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.copying import Copying
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.model import Operation, UserBindings
from ha_core.model.operation import LinkOperation
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.creating import create_operation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.journal import Journal, holding
from ha_core.operations.mirror.linking import LinkSteps, link_request, plan_link
from ha_core.operations.mirror.unlinking import Unlink, unlink
from ha_core.operations.running import engine
from ha_core.plan.mirror.linking import STEPS, Step
from ha_core.store.commits import StateChange
from tests.kafka.clients import produce
from tests.kafka.mirroring import caught_up, content, copying, states, wait_until
from tests.kit.moving import a_move, linked, moved
from tests.kit.stacks import operator
from tests.operations.real_clusters import at

pytestmark = pytest.mark.stack


environment = operator()


@pytest.fixture
def topic(environment: Environment) -> str:
    """One of the east with two partitions, a setting of its own, and records."""
    name = f"mirrored-{uuid.uuid4().hex[:8]}"
    admin_of(environment, "east").create_topics([TopicSpec(name, 2, 1, {"retention.ms": "7200000"})])
    produce(at(environment, "east"), name, 50)
    return name


def test_a_mirror_has_the_shape_of_its_source_and_no_client_is_sent_there(environment: Environment, topic: str) -> None:
    # When a topic is linked
    operation = linked(environment, topic)
    # Then the standby has the topic unchanged, no client is sent there, and the mirror is stored
    view = environment.store.load()
    west = admin_of(environment, "west")
    made = west.topics([topic])[topic]
    assert (made.partitions, made.config["retention.ms"]) == (2, "7200000")
    assert view.topics[topic].writers == {"east"}
    mirror = view.mirrors[f"{topic}@west"]
    assert (mirror.source, mirror.link) == ("east", operation.id)


def steps_of(journal: Journal[Operation]) -> LinkSteps:
    assert isinstance(journal.operation, LinkOperation)
    return LinkSteps(cast(Journal[LinkOperation], journal))


@pytest.mark.parametrize("killed_before", [*STEPS, "release"])
def test_a_link_that_died_before_any_step_is_continued_when_it_is_asked_for_again(
    environment: Environment, topic: str, killed_before: str
) -> None:
    # Given a link whose command died
    request = link_request([topic], "east", "west", "a standby")
    operation = create_operation(environment, plan_link(environment, request))
    with holding(environment, operation.id, engine.resume) as journal:
        for step in takewhile(lambda step: step != killed_before, STEPS):
            steps_of(journal).perform(step)
    later = (datetime.now(UTC) + timedelta(seconds=20)).isoformat()
    environment.now = lambda: later
    # When the same is asked for
    continued = engine.continue_twins(environment, request)
    # Then the mirror stands, once, and no lock is left
    if killed_before in {"pin", "prepare", "link"}:  # later, the next operation continues it
        assert [report.result for report in continued.reports] == ["succeeded"]
    view = environment.store.load()
    assert view.mirrors[f"{topic}@west"].link == operation.id
    assert not [lock for lock in environment.store.locks() if lock.operation == operation.id]


@pytest.mark.parametrize("steps", [STEPS[:count] for count in range(3)], ids=lambda steps: str(len(steps)))
def test_a_link_is_undone_without_a_trace(environment: Environment, topic: str, steps: tuple[Step, ...]) -> None:
    # Given a link that got so far
    operation = create_operation(
        environment, plan_link(environment, link_request([topic], "east", "west", "a standby"))
    )
    with holding(environment, operation.id, engine.resume) as journal:
        for step in steps:
            steps_of(journal).perform(step)
    # When it is undone
    assert engine.undo(environment, operation.id).result == "undone"
    # Then neither map, mirror, copy nor lock is left
    view = environment.store.load()
    assert topic not in view.topics
    assert f"{topic}@west" not in view.mirrors
    assert topic not in admin_of(environment, "west").topics([topic])
    assert not [lock for lock in environment.store.locks() if lock.operation == operation.id]


def test_a_link_that_stands_is_ended_by_unlink_and_by_nothing_else(environment: Environment, topic: str) -> None:
    operation = linked(environment, topic)
    with pytest.raises(RefusedError, match="mirror unlink"):
        engine.undo(environment, operation.id)
    # When it is unlinked
    (report,) = unlink(environment, [topic], "west", "no longer needed")
    # Then it is not copied any more, and a second time there is nothing to end
    assert report.result == "succeeded"
    assert f"{topic}@west" not in environment.store.load().mirrors
    with pytest.raises(RefusedError, match=f"{topic} has no mirror in west"):
        unlink(environment, [topic], "west", "once more")


@contextmanager
def copied(environment: Environment, topic: str) -> Iterator[Copying]:
    """A copier of the topic's mirror, which has copied everything."""
    mirror = environment.store.load().mirrors[f"{topic}@west"]
    east, west = admin_of(environment, "east"), admin_of(environment, "west")
    ensure_copy_log(west, mirror.log, mirror.log_partitions)
    with copying(east, west, copies_of(mirror, 2)) as job:
        wait_until(lambda: caught_up(job, {(topic, 0): 50, (topic, 1): 0}), job.statuses)
        yield job


def test_a_copier_of_an_ended_mirror_is_fenced(environment: Environment, topic: str) -> None:
    # Given a copier that does not hear of it
    linked(environment, topic)
    with copied(environment, topic) as job:
        # When the mirror is ended
        assert unlink(environment, [topic], "west", "not needed")[0].result == "succeeded"
        produce(at(environment, "east"), topic, 10)
        # Then it has stopped when it wants to append, and what was produced since is not in the copy
        wait_until(lambda: "stopped" in states(job), job.statuses)
    assert len(content(at(environment, "west"), topic)) == 50


def test_linking_again_corrects_noted_deletions_by_the_sources_log(environment: Environment, topic: str) -> None:
    # Given a topic that had a mirror, and noted deletions in three partitions: the first one's records are deleted, the
    # second one's log was created later, and the third no longer exists
    linked(environment, topic)
    assert unlink(environment, [topic], "west", "to be made anew", delete_copy=True)[0].result == "succeeded"
    where, admin = TopicPartition(topic, 0, 30), AdminClient({**at(environment, "east")})
    admin.delete_records([where])[where].result(30)
    store = environment.store
    store.keep_deleted(store.load().topics[topic], {0: 30, 1: 12, 5: 9})
    # When the topic is linked anew
    linked(environment, topic)
    # Then a forced switch hides no record that the source has
    assert store.deleted_records([topic]) == {(topic, 0): 30, (topic, 1): 0, (topic, 5): 0}


def at_west(environment: Environment, topic: str) -> dict[str, str]:
    return admin_of(environment, "west").topic_ids([topic])


def test_a_copy_is_deleted_with_its_mirror_and_a_later_topic_of_its_name_stays(
    environment: Environment, topic: str
) -> None:
    linked(environment, topic)
    # When the mirror is ended and its copy with it
    assert unlink(environment, [topic], "west", "not needed", delete_copy=True)[0].result == "succeeded"
    # Then the topic is in its source alone, and to say it again changes nothing
    assert at_west(environment, topic) == {}
    assert topic in admin_of(environment, "east").topics([topic])
    # And a repetition does not delete a topic that was created since
    admin_of(environment, "west").create_topics([TopicSpec(topic, 2, 1)])
    made = at_west(environment, topic)
    assert unlink(environment, [topic], "west", "once more", delete_copy=True)[0].result == "succeeded"
    assert at_west(environment, topic) == made


def test_the_deletion_of_a_copy_that_died_is_gone_on_with(
    environment: Environment, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process that died right after the revision
    linked(environment, topic)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Unlink, "end", dies)
    with pytest.raises(KeyboardInterrupt):
        unlink(environment, [topic], "west", "not needed", delete_copy=True)
    monkeypatch.undo()
    (left,) = {lock.operation for lock in environment.store.locks() if lock.key == f"topic:{topic}"}
    assert at_west(environment, topic) != {}
    # When another process continues it
    assert engine.resume(environment, left).result == "succeeded"
    # Then neither mirror, copy nor lock is left
    assert at_west(environment, topic) == {}
    assert f"{topic}@west" not in environment.store.load().mirrors
    assert f"topic:{topic}" not in environment.store.lock_keys()


def test_a_copy_that_could_not_be_deleted_is_deleted_when_it_is_asked_for_again(
    environment: Environment, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a cluster that refuses to delete
    linked(environment, topic)
    west = admin_of(environment, "west")

    def refuses(*_: object) -> None:
        raise KafkaAdminError("west", "not now.")

    with monkeypatch.context() as away:
        away.setattr(west, "delete_topics", refuses)
        (report,) = unlink(environment, [topic], "west", "not needed", delete_copy=True)
    assert (report.result, "not now" in report.error) == ("failed", True)
    # When the same is asked for again
    assert unlink(environment, [topic], "west", "not needed", delete_copy=True)[0].result == "succeeded"
    # Then it is gone
    assert at_west(environment, topic) == {}


def test_a_copy_beside_which_a_group_keeps_its_offsets_is_not_deleted_and_its_mirror_stands(
    environment: Environment, topic: str
) -> None:
    # Given a group that is bound to the standby, with offsets of the topic
    linked(environment, topic)
    admin_of(environment, "west").set_group_offsets(f"g-{topic}", {(topic, 0): (3, "")})
    user = UserBindings(user=f"user-{topic}", groups={f"g-{topic}": "west"})
    environment.store.commit(StateChange(change_id=topic, puts=(user,), expected={(UserBindings, user.user): None}))
    before = environment.store.load()
    # When the copy is to go
    with pytest.raises(RefusedError, match=f"Nothing was changed.*g-{topic} commits offsets of it there"):
        unlink(environment, [topic], "west", "not needed", delete_copy=True)
    # Then nothing was changed
    assert environment.store.load() == before
    assert at_west(environment, topic) != {}


def test_a_topic_that_was_made_again_under_the_name_of_a_copy_is_not_deleted_for_it(
    environment: Environment, topic: str
) -> None:
    # Given a copy that was deleted and replaced by another topic of its name
    linked(environment, topic)
    with copied(environment, topic):
        pass
    west = admin_of(environment, "west")
    west.delete_topics(west.topic_ids([topic]), lambda: None)
    west.create_topics([TopicSpec(topic, 2, 1)])
    # Then it is not deleted
    with pytest.raises(RefusedError, match="is not the topic that was copied"):
        unlink(environment, [topic], "west", "not needed", delete_copy=True)


def test_after_a_switch_the_copy_in_the_old_source_is_deleted_and_clients_find_all_records(
    environment: Environment, topic: str
) -> None:
    # Given a mirrored topic that has gone to its copy, and is mirrored back
    linked(environment, topic)
    assert moved(environment, a_move(topic)).result == "succeeded"
    assert environment.store.load().mirrors[f"{topic}@east"].source == "west"
    # When that ends, with its copy
    (report,) = unlink(environment, [topic], "east", "moved for good", delete_copy=True)
    assert report.result == "succeeded"
    # Then the old source has nothing of it, and the copy everything
    assert admin_of(environment, "east").topic_ids([topic]) == {}
    assert environment.store.load().topics[topic].clusters == {"west"}
    assert len(content(at(environment, "west"), topic)) == 50
