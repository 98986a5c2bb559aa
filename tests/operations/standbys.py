"""Topics of three real clusters that are each other's standbys."""

from collections.abc import Collection

from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.model import Operation
from ha_core.operations.copies.comparing import compare_mirrors
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.creating import create_operation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.proposal.proposal import plan
from tests.kafka.clients import produce
from tests.kafka.mirroring import caught_up, content, copying, wait_until
from tests.kit.moving import a_move
from tests.operations.real_clusters import at

CLUSTERS = {"east": "3.9.2", "west": "4.3.1", "north": "3.9.2"}
PARTITIONS = 2


def made(environment: Environment, topic: str) -> None:
    """A topic of the east."""
    admin_of(environment, "east").create_topics([TopicSpec(topic, PARTITIONS, 1)])


def written(environment: Environment, topic: str, records: int, cluster: str = "east") -> None:
    """This many records in each partition, and one of an aborted transaction."""
    for partition in range(PARTITIONS):
        produce(at(environment, cluster), topic, records, partition=partition, enable_idempotence=True)
    aborted = produce(at(environment, cluster), topic, 0, transactional_id=topic)
    aborted.init_transactions(30)
    aborted.begin_transaction()
    aborted.produce(topic, b"aborted", partition=1)
    aborted.flush(30)
    aborted.abort_transaction(30)


def copy_all(environment: Environment, topic: str, *targets: str) -> None:
    """All that the sources of these mirrors have by now, one after the other; then no process copies any more."""
    for target in targets:
        mirror = environment.store.load().mirrors[f"{topic}@{target}"]
        source, there = admin_of(environment, mirror.source), admin_of(environment, target)
        ensure_copy_log(there, mirror.log, mirror.log_partitions)
        copies = copies_of(mirror, PARTITIONS)
        ends = {key: found.log_end for key, found in source.ends([copy.key for copy in copies]).items()}
        with copying(source, there, copies, starts={}) as job:
            wait_until(lambda: caught_up(job, ends), job.statuses)  # noqa: B023  called before the next one


def begun(environment: Environment, topic: str, origin: str = "east", target: str = "west") -> Operation:
    """A switch of which nothing was done yet."""
    proposal = plan(environment, a_move(topic, origin=origin, target=target))
    assert not proposal.refused, proposal.verdicts
    return create_operation(environment, proposal)


def routes(environment: Environment, topic: str) -> set[tuple[str, str]]:
    """(source, target) of its mirrors."""
    mirrors = environment.store.load().mirrors.values()
    return {(mirror.source, mirror.target) for mirror in mirrors if mirror.topic == topic}


def assert_copies(environment: Environment, topic: str, targets: Collection[str]) -> None:
    """Each copy equals its source."""
    for target in targets:
        comparison = compare_mirrors(environment, [topic], target, 1.0, 0)
        assert comparison.equal, [one.to_json() for one in comparison.partitions]


def held(environment: Environment, topic: str, cluster: str) -> list[int]:
    """Committed records in each partition there."""
    return [len(content(at(environment, cluster), topic, partition)) for partition in range(PARTITIONS)]
