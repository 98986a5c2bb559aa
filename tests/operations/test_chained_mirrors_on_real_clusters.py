"""A copy that is copied itself: it has each record once, and follows the first copy when that becomes the writer."""

import pytest

from ha_core.kafka.verifying import copies_of
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.mirror.linking import link_request, plan_link
from ha_core.operations.mirror.unlinking import judged
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.running import engine
from stack.harness import Stack
from tests.kit.moving import a_forced_move, a_move, linked, moved
from tests.kit.stacks import operator, own_stack
from tests.operations.real_clusters import stored_topic
from tests.operations.standbys import (
    CLUSTERS,
    PARTITIONS,
    assert_copies,
    begun,
    copy_all,
    held,
    made,
    routes,
    written,
)

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long(
        "ha_core/operations/mirror",
        "ha_core/plan/mirror/linking.py",
        "ha_core/plan/mirror/mirrored_topics.py",
        "ha_core/mirror/repointing.py",
    ),
]
RECORDS = 200


stack = own_stack(CLUSTERS, gateways=0)
"""A stack of its own: its east dies in the last test."""
environment = operator()


def taken_over(environment: Environment, topic: str, cluster: str) -> None:
    """By one who copies nothing: this leaves markers in the copy."""
    mirror = environment.store.load().mirrors[f"{topic}@{cluster}"]
    admin_of(environment, cluster).take_over(copies_of(mirror, PARTITIONS))


def chained(environment: Environment, topic: str) -> None:
    """A topic of east, copied to west and from there to north, by copiers that were taken over now and then."""
    made(environment, topic)
    written(environment, topic, RECORDS // 2)
    linked(environment, topic)
    copy_all(environment, topic, "west")
    taken_over(environment, topic, "west")
    linked(environment, topic, source="west", target="north")
    copy_all(environment, topic, "north")
    written(environment, topic, RECORDS // 2)
    copy_all(environment, topic, "west")
    taken_over(environment, topic, "west")
    copy_all(environment, topic, "north")


def test_a_copy_of_a_copy_has_each_record_once_and_follows_the_first_one(environment: Environment) -> None:
    # Given a topic of east, copied to west and from there to north
    topic = "chained"
    chained(environment, topic)
    assert routes(environment, topic) == {("east", "west"), ("west", "north")}
    # Then all have the same records
    assert_copies(environment, topic, ["west", "north"])
    assert all(held(environment, topic, cluster) == [RECORDS] * PARTITIONS for cluster in CLUSTERS)
    # And the first copy is needed by the second, and no mirror may lead back
    with pytest.raises(RefusedError, match=f"would get no more records: {topic} in north"):
        judged(environment, [topic], "west", False)
    back = plan_link(environment, link_request([topic], "north", "east", "a circle"))
    assert "loop" in {verdict.code for verdict in back.verdicts if verdict.level == "error"}
    # And the topic goes to the first copy only
    refused = plan(environment, a_move(topic, target="north"))
    assert "mirrored" in {verdict.code for verdict in refused.verdicts if verdict.level == "error"}
    # When it goes there, then the second copy has the same mirror as before, which is one of the writer now
    before = environment.store.load().mirrors[f"{topic}@north"]
    assert engine.resume(environment, begun(environment, topic).id).result == "succeeded"
    assert routes(environment, topic) == {("west", "east"), ("west", "north")}
    assert environment.store.load().mirrors[f"{topic}@north"] == before
    written(environment, topic, 9, "west")
    copy_all(environment, topic, "north", "east")
    assert_copies(environment, topic, ["north", "east"])
    assert all(held(environment, topic, cluster) == [RECORDS + 9] * PARTITIONS for cluster in CLUSTERS)
    # When it goes back, then the second copy goes on from there
    assert engine.resume(environment, begun(environment, topic, "west", "east").id).result == "succeeded"
    assert routes(environment, topic) == {("east", "west"), ("east", "north")}
    written(environment, topic, 5, "east")
    copy_all(environment, topic, "north", "west")
    # When it goes to that one, then everyone has each record once, and the map names no other cluster
    assert engine.resume(environment, begun(environment, topic, "east", "north").id).result == "succeeded"
    written(environment, topic, 3, "north")
    copy_all(environment, topic, "east", "west")
    assert_copies(environment, topic, ["east", "west"])
    assert all(held(environment, topic, cluster) == [RECORDS + 17] * PARTITIONS for cluster in CLUSTERS)
    assert stored_topic(environment, topic).clusters == {"north"}


def test_deletions_that_clients_were_told_of_outlive_the_link_of_a_copy_of_a_copy(environment: Environment) -> None:
    # Given records that clients have deleted in the writer, which its copy still has
    topic = "deleted"
    made(environment, topic)
    written(environment, topic, RECORDS)
    linked(environment, topic)
    copy_all(environment, topic, "west")
    environment.store.keep_deleted(stored_topic(environment, topic), {0: 10})
    # When the copy is mirrored
    linked(environment, topic, source="west", target="north")
    # Then its log start says nothing about them
    assert environment.store.deleted_records([topic]) == {(topic, 0): 10}


def test_a_forced_switch_goes_to_the_first_copy_and_the_second_follows(stack: Stack, environment: Environment) -> None:
    # Given a chain whose first copy lacks the last records of the writer, which dies
    topic = "forced"
    chained(environment, topic)
    written(environment, topic, 7)
    record(environment, ["east"])
    stack.kill("cluster/east")
    # When the topic is forced to the first copy
    report = moved(environment, a_forced_move(topic))
    # Then the second is a copy of the writer, without any change
    assert (report.result, report.error) == ("succeeded", "")
    assert routes(environment, topic) == {("west", "north")}
    written(environment, topic, 4, "west")
    copy_all(environment, topic, "north")
    assert_copies(environment, topic, ["north"])
    assert all(held(environment, topic, cluster) == [RECORDS + 4] * PARTITIONS for cluster in ("west", "north"))
    # And the topic goes on there, too
    assert moved(environment, a_move(topic, origin="west", target="north")).result == "succeeded"
    assert stored_topic(environment, topic).clusters == {"north"}
