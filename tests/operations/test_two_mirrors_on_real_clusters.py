"""One topic with two mirrors: both are equal to it, and what becomes of the second where it goes to the first."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.model import Mirror
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.copies.comparing import compare_mirrors
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.mirror.linking import link_request, plan_link
from ha_core.operations.proposal.proposal import plan
from stack.harness import Stack
from tests.kafka.clients import produce
from tests.kafka.mirroring import content
from tests.kit.mirroring import Copiers, await_copies
from tests.kit.moving import a_forced_move, a_move, copiers_of, linked, moved
from tests.kit.stacks import operator, own_stack
from tests.operations.real_clusters import at, stored_operation

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long(
        "ha_core/operations/move", "ha_core/operations/copies/reversal.py", "ha_core/plan/mirror/standby.py"
    ),
]
TOPIC, PARTITIONS, RECORDS = "orders", 2, 300
COPIES = ("west", "north")


stack = own_stack({"east": "3.9.2", "west": "4.3.1", "north": "3.9.2"}, gateways=0)
"""A stack of its own: its east dies."""
environment = operator()


@pytest.fixture
def copiers(environment: Environment) -> Iterator[Copiers]:
    with copiers_of(environment, {TOPIC: PARTITIONS}) as running:
        yield running


def epochs(environment: Environment, mirror: Mirror) -> dict[int, int]:
    """Partition → the epoch of who takes its copy over now."""
    found = admin_of(environment, mirror.target).take_over(copies_of(mirror, PARTITIONS))
    return {id_.partition: one.writer.epoch for id_, one in found.items()}  # type: ignore[union-attr]


def test_a_forced_switch_to_one_of_two_equal_copies_ends_the_other_which_is_linked_again(
    stack: Stack, environment: Environment, copiers: Copiers
) -> None:
    # Given a topic with mirrors in two clusters, written to before and after they were linked
    admin_of(environment, "east").create_topics([TopicSpec(TOPIC, PARTITIONS, 1)])
    for target in COPIES:
        for partition in range(PARTITIONS):
            produce(at(stack, "east"), TOPIC, RECORDS // 2, partition=partition, enable_idempotence=True)
        linked(environment, TOPIC, target=target)
    # When they are copied, then both are equal
    for target in COPIES:
        with await_copies(copiers, TOPIC, target, 120):
            comparison = compare_mirrors(environment, [TOPIC], target, 1.0, 0)
        assert comparison.equal, [one.to_json() for one in comparison.partitions]
        assert [len(content(at(stack, target), TOPIC, p)) for p in range(PARTITIONS)] == [RECORDS] * PARTITIONS
    # When the topic is to be switched to one of them in peace, then that is refused, with the way out
    refused = [verdict for verdict in plan(environment, a_move(TOPIC)).verdicts if verdict.level == "error"]
    assert [verdict.code for verdict in refused] == ["third-cluster"]
    assert f"mirror unlink {TOPIC} --to north" in refused[0].remedy
    # When its cluster is killed, and the topic is forced to one of them
    record(environment, ["east"])
    north = environment.store.load().mirrors[f"{TOPIC}@north"]
    before = epochs(environment, north)
    stack.kill("cluster/east")
    proposal = plan(environment, a_forced_move(TOPIC))
    verdicts = {verdict.code: verdict for verdict in proposal.verdicts}
    assert not proposal.refused, proposal.verdicts
    assert verdicts["third-cluster"].level == "warning"
    report = moved(environment, proposal)
    # Then it goes on there, and no mirror from the dead cluster is left
    assert (report.result, report.error) == ("succeeded", "")
    view = environment.store.load()
    assert view.topics[TOPIC].clusters == {"west"}
    assert view.mirrors == {}
    # And result and history name the other one, whose copiers its brokers refuse
    operation = stored_operation(environment, report.operation)
    assert f"the mirrors of {TOPIC} in north have ended with it" in operation.result
    assert f"{TOPIC}@north" in {entry.detail.get("ended_too") for entry in environment.store.history(operation.id)}
    assert epochs(environment, north) == {partition: epoch + 2 for partition, epoch in before.items()}
    # When it is to be linked anew, then its old copy stands in the way, and is left alone
    link = link_request([TOPIC], "west", "north", "a standby again")
    assert "foreign-data" in {
        verdict.code for verdict in plan_link(environment, link).verdicts if verdict.level == "error"
    }
    assert len(content(at(stack, "north"), TOPIC)) == RECORDS
    # When it is deleted there, as the result says, then the new writer is mirrored there
    admin = AdminClient(at(stack, "north"))
    admin.delete_topics([TOPIC])[TOPIC].result(30)
    produce(at(stack, "west"), TOPIC, 40)
    linked(environment, TOPIC, source="west", target="north")
    with await_copies(copiers, TOPIC, "north", 120):
        comparison = compare_mirrors(environment, [TOPIC], "north", 1.0, 0)
    assert comparison.equal, [one.to_json() for one in comparison.partitions]
    assert len(content(at(stack, "north"), TOPIC)) == RECORDS + 40
