"""One topic with two mirrors: where it goes to the one, the other goes on from there, or is kept out."""

from collections.abc import Iterator, Mapping
from itertools import takewhile

import pytest
from confluent_kafka.admin import AdminClient

from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.verifying import copies_of
from ha_core.model import Mirror
from ha_core.model.brought_rights import BroughtRule
from ha_core.operations.absence.reconciling import reconcile
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.engine.journal import holding
from ha_core.operations.mirror.linking import link_request, plan_link
from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.running import engine
from ha_core.plan.move.planner import steps
from stack.harness import Stack
from tests.kafka.clients import produce
from tests.kafka.mirroring import content, copying, wait_until
from tests.kit.mirroring import Copiers, await_copies
from tests.kit.moving import a_forced_move, a_move, copiers_of, linked, moved
from tests.kit.stacks import operator, own_stack
from tests.operations.dying import COMMIT, Call, Death, after, before, die_in_engine
from tests.operations.real_clusters import at, stored_operation
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
        "ha_core/operations/move",
        "ha_core/operations/copies/reversal.py",
        "ha_core/operations/copies/repointing.py",
        "ha_core/mirror/repointing.py",
        "ha_core/plan/mirror/standby.py",
    ),
]
RECORDS = 300
COPIES = ("west", "north")
SEED = Call("ha_core.kafka.admin", "Admin.seed")
TAKE_OVER = Call("ha_core.kafka.admin", "Admin.take_over")


stack = own_stack(CLUSTERS, gateways=0)
"""A stack of its own: its east dies in the last test."""
environment = operator()


def mirrored(environment: Environment, topic: str) -> None:
    """A topic of the east with two mirrors, written to before and after they were linked."""
    made(environment, topic)
    for target in COPIES:
        written(environment, topic, RECORDS // len(COPIES))
        linked(environment, topic, target=target)


def epochs(environment: Environment, mirror: Mirror) -> dict[int, int]:
    """Partition → the epoch of who takes its copy over now."""
    found = admin_of(environment, mirror.target).take_over(copies_of(mirror, PARTITIONS))
    return {id_.partition: one.writer.epoch for id_, one in found.items()}  # type: ignore[union-attr]


def assert_equal(environment: Environment, topic: str, targets: set[str], records: list[int]) -> None:
    """Each copy equals its source, and every cluster has each record once."""
    assert_copies(environment, topic, targets)
    for cluster in CLUSTERS:
        assert held(environment, topic, cluster) == records, cluster


@pytest.fixture
def copiers(environment: Environment) -> Iterator[Copiers]:
    with copiers_of(environment, {"there-and-back": PARTITIONS}) as running:
        yield running


def test_a_second_copy_goes_on_from_each_new_writer_from_where_it_is(
    stack: Stack, environment: Environment, copiers: Copiers
) -> None:
    # Given a topic with mirrors in two clusters, written to before and after they were linked
    topic, here, records = "there-and-back", "east", [RECORDS] * PARTITIONS
    mirrored(environment, topic)
    # When it goes from one cluster to the next, also to the one that was no copy of the first cluster's
    for there in ("west", "north", "east", "west"):
        others = {"east", "west", "north"} - {here}
        for target in others:
            with await_copies(copiers, topic, target, 120):
                pass
        third = (others - {there}).pop()
        operation = begun(environment, topic, here, there)
        report = engine.resume(environment, operation.id)
        assert (report.result, report.error) == ("succeeded", "")
        result = stored_operation(environment, operation.id).result
        assert f"the mirrors of {topic} in {third} go on from {there}" in result
        # Then both others are its copies
        assert routes(environment, topic) == {(there, target) for target in {"east", "west", "north"} - {there}}
        for partition in range(PARTITIONS):
            produce(at(stack, there), topic, 7 + partition, partition=partition, enable_idempotence=True)
            records[partition] += 7 + partition
        for target in {"east", "west", "north"} - {there}:
            with await_copies(copiers, topic, target, 120):
                pass
        assert_equal(environment, topic, {"east", "west", "north"} - {there}, records)
        here = there


def test_a_second_copy_that_lags_gets_the_missing_records_from_the_new_writer(
    stack: Stack, environment: Environment
) -> None:
    # Given a second copy that lacks half of the records, and no job
    topic = "lags"
    mirrored(environment, topic)
    copy_all(environment, topic, "north")
    for partition in range(PARTITIONS):
        produce(at(stack, "east"), topic, RECORDS, partition=partition, enable_idempotence=True)
    # When the topic goes to the first and back, and there again
    for origin, target in (("east", "west"), ("west", "east"), ("east", "west")):
        assert engine.resume(environment, begun(environment, topic, origin, target).id).result == "succeeded"
    held = [len(content(at(stack, "north"), topic, p)) for p in range(PARTITIONS)]
    assert held == [RECORDS] * PARTITIONS
    # Then the second copy gets the rest, once
    copy_all(environment, topic, "north", "east")
    assert_equal(environment, topic, {"east", "north"}, [2 * RECORDS] * PARTITIONS)


def test_a_second_mirror_that_no_copier_has_begun_begins_at_the_new_writer(
    stack: Stack, environment: Environment
) -> None:
    # Given a second mirror without notes, but with rules that it has brought
    topic, brought = "not-begun", BroughtRule("User:ann", "*", 3, True)
    mirrored(environment, topic)
    key, mirrors = f"{topic}@north", environment.store.load().mirrors
    environment.store.note_brought(key, mirrors[key].link, [brought])
    # When the topic goes to the first, then the second copy is made from there, and keeps what it has brought
    assert engine.resume(environment, begun(environment, topic).id).result == "succeeded"
    assert routes(environment, topic) == {("west", "east"), ("west", "north")}
    link = environment.store.load().mirrors[key].link
    assert environment.store.brought_rights([(key, link)]) == {key: {brought}}
    copy_all(environment, topic, "north", "east")
    assert_equal(environment, topic, {"east", "north"}, [RECORDS] * PARTITIONS)


DEATHS: Mapping[str, str | Death] = {
    "before-verify": "verify",
    "before-repoint": "repoint",
    "after-take-over": after(TAKE_OVER),
    "after-seed": after(SEED),
    "before-commit": before(COMMIT, "repoint"),
    "after-commit": after(COMMIT, "repoint"),
    "before-reverse": "reverse",
}
"""Topic → where a process dies after the cut: before a step, or at a call in `repoint`."""


@pytest.mark.parametrize("topic", DEATHS)
def test_a_switch_that_died_after_its_cut_repoints_the_second_mirror_once(
    stack: Stack, environment: Environment, topic: str
) -> None:
    # Given a topic with two copies, and a switch whose process died after the cut
    death = DEATHS[topic]
    mirrored(environment, topic)
    copy_all(environment, topic, "north")
    operation = begun(environment, topic)
    until = death if isinstance(death, str) else "repoint"
    with holding(environment, operation.id, engine.resume) as journal:
        effects = SwitchSteps(journal)  # type: ignore[arg-type]
        for step in takewhile(lambda step: step != until, steps(a_move(topic))):
            effects.perform(step)
        effects.close()
    if isinstance(death, Death):
        die_in_engine(stack, death, "resume", operation.id)
    produce(at(stack, "west"), topic, 5, enable_idempotence=True)
    # When another process continues it
    assert engine.resume(environment, operation.id).result == "succeeded"
    # Then the mirror goes on from the new writer, once
    assert routes(environment, topic) == {("west", "east"), ("west", "north")}
    copy_all(environment, topic, "north", "east")
    assert_equal(environment, topic, {"east", "north"}, [RECORDS + 5, RECORDS])


def test_a_copier_that_stood_still_since_before_the_switch_appends_nothing_to_a_repointed_copy(
    stack: Stack, environment: Environment
) -> None:
    # Given a second copy whose old copier does not know of a switch
    topic = "stood-still"
    mirrored(environment, topic)
    mirror = environment.store.load().mirrors[f"{topic}@north"]
    east, north = (admin_of(environment, name) for name in ("east", "north"))
    ensure_copy_log(north, mirror.log, mirror.log_partitions)
    with copying(east, north, copies_of(mirror, PARTITIONS), starts={}) as job:
        wait_until(lambda: all(one.to_copy == 0 for one in job.statuses().values()), job.statuses)
        assert engine.resume(environment, begun(environment, topic).id).result == "succeeded"
        # When its source, which is a copy by now, gets records of the new writer
        produce(at(stack, "west"), topic, 20, enable_idempotence=True)
        copy_all(environment, topic, "east")
        # Then it is refused there
        wait_until(lambda: all(one.state == "stopped" for one in job.statuses().values()), job.statuses)
    copy_all(environment, topic, "north")
    assert_equal(environment, topic, {"east", "north"}, [RECORDS + 20, RECORDS])


FORCED = {"level": (0, 0), "behind": (40, 0), "ahead": (0, 25)}
"""Topic → records that the second copy lacks of the first, and has beyond it."""
BEYOND = 3
"""Records of each of them that no copy has."""


@pytest.fixture(scope="module")
def dead(stack: Stack) -> Stack:
    """East had topics with two mirrors, which are as far as `FORCED` says, and died."""
    with connect(EnvironmentSettings(stack.zookeeper), by="test:operator") as environment:
        for topic, (behind, ahead) in FORCED.items():
            mirrored(environment, topic)
            copy_all(environment, topic, "north")
            produce(at(stack, "east"), topic, behind, enable_idempotence=True)
            copy_all(environment, topic, "west")
            produce(at(stack, "east"), topic, ahead, enable_idempotence=True)
            if ahead:
                copy_all(environment, topic, "north")
            produce(at(stack, "east"), topic, BEYOND, enable_idempotence=True)
        record(environment, ["east"])
    stack.kill("cluster/east")
    return stack


@pytest.mark.parametrize("topic", ["level", "behind"])
def test_a_second_copy_without_surplus_goes_on_from_the_new_writer_of_a_forced_switch(
    dead: Stack, environment: Environment, topic: str
) -> None:
    # Given a dead cluster, and a second copy that has nothing that the chosen one lacks
    proposal = plan(environment, a_forced_move(topic))
    assert "also-mirrored" in {verdict.code for verdict in proposal.verdicts}
    # When the topic is forced to the chosen copy
    report = moved(environment, proposal)
    # Then the second mirror goes on from there, and its copy gets what it lacks, once
    assert (report.result, report.error) == ("succeeded", "")
    assert routes(environment, topic) == {("west", "north")}
    produce(at(dead, "west"), topic, 11, enable_idempotence=True)
    copy_all(environment, topic, "north")
    assert_copies(environment, topic, ["north"])
    for cluster in COPIES:
        assert len(content(at(dead, cluster), topic)) == RECORDS + FORCED[topic][0] + 11
    # And the topic goes on there, too, in a planned switch and in peace
    assert moved(environment, a_move(topic, origin="west", target="north")).result == "succeeded"
    assert environment.store.load().topics[topic].clusters == {"north"}
    assert routes(environment, topic) == {("north", "west")}


def test_a_second_copy_with_surplus_is_kept_out_and_is_linked_again_when_it_is_deleted(
    dead: Stack, environment: Environment
) -> None:
    # Given a dead cluster, and a second copy that has records which the chosen one lacks
    topic, (_, ahead) = "ahead", FORCED["ahead"]
    north = environment.store.load().mirrors[f"{topic}@north"]
    before = epochs(environment, north)
    # When the topic is forced to the chosen copy
    report = moved(environment, a_forced_move(topic))
    # Then no mirror is left, and the result and the history tell the surplus, where it lies, and the way out
    assert (report.result, report.error) == ("succeeded", "")
    assert [*report.to_json()["kept_out"]] == [f"{topic}@north"]
    assert routes(environment, topic) == set()
    operation = stored_operation(environment, report.operation)
    assert f"it has {ahead} records of east that west lacks ({topic}-0 from offset " in operation.result
    assert "mirror link TOPIC --from west --to CLUSTER" in operation.result
    told = [entry.detail.get("kept_out", {}) for entry in environment.store.history(operation.id)]
    assert any(f"{topic}@north" in keys for keys in told)
    # And its brokers refuse its copiers, and its records are as they were
    assert all(epoch > before[partition] for partition, epoch in epochs(environment, north).items())
    assert len(content(at(dead, "north"), topic)) == RECORDS + ahead
    # When it is to be linked anew, then its old copy stands in the way, and is left alone
    link = link_request([topic], "west", "north", "a standby again")
    assert "foreign-data" in {one.code for one in plan_link(environment, link).verdicts if one.level == "error"}
    # When it is deleted there, as the result says, then the new writer is mirrored there
    admin = AdminClient(at(dead, "north"))
    admin.delete_topics([topic])[topic].result(30)
    linked(environment, topic, source="west", target="north")
    produce(at(dead, "west"), topic, 11, enable_idempotence=True)
    copy_all(environment, topic, "north")
    assert_copies(environment, topic, ["north"])
    assert len(content(at(dead, "north"), topic)) == RECORDS + 11


def test_a_returned_cluster_becomes_a_copy_beside_the_repointed_one(dead: Stack, environment: Environment) -> None:
    # Given topics that were forced to one copy, whose second mirror went on from there, and whose cluster is back
    dead.restart("cluster/east")
    # When it is reconciled
    done = reconcile(environment, "east", list(FORCED), reason="it is back")
    # Then its lost tails are counted, and it is the second or third copy
    lost = {topic: ahead + BEYOND for topic, (_, ahead) in FORCED.items()}
    assert {one.topic: one.records for one in done.tails if one.partition == 0} == lost
    assert "ahead" in done.mirrored
    assert routes(environment, "ahead") == {("west", "east"), ("west", "north")}
    copy_all(environment, "ahead", "east")
    assert_copies(environment, "ahead", ["east"])
    # When the topic goes back to it, above its lost tail, then the other copy goes on from there
    assert moved(environment, a_move("ahead", origin="west", target="east")).result == "succeeded"
    assert routes(environment, "ahead") == {("east", "west"), ("east", "north")}
    produce(at(dead, "east"), "ahead", 9, enable_idempotence=True)
    copy_all(environment, "ahead", *COPIES)
    assert_copies(environment, "ahead", COPIES)
    for target in COPIES:
        assert len(content(at(dead, target), "ahead")) == RECORDS + 11 + 9
    assert len(content(at(dead, "east"), "ahead")) == RECORDS + 11 + 9 + lost["ahead"]
