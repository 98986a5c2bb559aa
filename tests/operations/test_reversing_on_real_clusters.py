"""Mirrors turned round on real clusters: what was copied one way is not copied back."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.copying import Copying
from ha_core.kafka.errors import StandsInTheWayError
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.fencing import fence
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import Document, Mirror
from ha_core.operations.copies.comparing import compare_mirrors
from ha_core.operations.copies.reversal import prepare_reversal, reversed_mirror
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.store.commits import StateChange
from tests.kafka.clients import produce
from tests.kafka.mirroring import caught_up, content, wait_until
from tests.kit.stacks import operator
from tests.operations.real_clusters import at

pytestmark = pytest.mark.stack
PARTITIONS = 2


environment = operator()


@pytest.fixture
def mirror(environment: Environment) -> Mirror:
    """The mirror of a topic of the east that is in the west as well, with records, some of an aborted transaction."""
    name = f"turned-{uuid.uuid4().hex[:8]}"
    for cluster in ("east", "west"):
        admin_of(environment, cluster).create_topics([TopicSpec(name, PARTITIONS, 1)])
    produce(at(environment, "east"), name, 300, enable_idempotence=True)
    aborted = produce(at(environment, "east"), name, 0, transactional_id=name)
    aborted.init_transactions(30)
    for commits in (False, True, False):
        aborted.begin_transaction()
        aborted.produce(name, b"of a transaction", partition=1)
        aborted.flush(30)
        (aborted.commit_transaction if commits else aborted.abort_transaction)(30)
    found = Mirror.of(name, "east", "west", f"link-{name}", "2026-11-23T02:00:00Z", "test")
    return found.changed(log=f"copies-{name}", log_partitions=2)


@contextmanager
def copied(environment: Environment, mirror: Mirror) -> Iterator[Copying]:
    """All that is there by now, by the copiers of the mirror; they go on meanwhile."""
    source, target = (admin_of(environment, name) for name in (mirror.source, mirror.target))
    copies = copies_of(mirror, PARTITIONS)
    ensure_copy_log(target, mirror.log, mirror.log_partitions)
    job = Copying(source, target, copies)
    thread = threading.Thread(target=job.run)
    thread.start()
    try:
        ends = {key: found.log_end for key, found in source.ends([copy.key for copy in copies]).items()}
        wait_until(lambda: caught_up(job, ends), job.statuses, 60)
        yield job
    finally:
        job.stop()
        thread.join(30)


def bases(environment: Environment, mirror: Mirror) -> dict[int, int]:
    """Where the copies end now."""
    found = admin_of(environment, mirror.target).ends([copy.key for copy in copies_of(mirror, PARTITIONS)])
    return {partition: ends.log_end for (_, partition), ends in found.items()}


def equal(environment: Environment, mirror: Mirror) -> bool:
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None}
    environment.store.commit(StateChange(change_id=f"link {mirror.link}", puts=(mirror,), expected=expected))
    comparison = compare_mirrors(environment, [mirror.topic], mirror.target, 1.0, 0)
    assert comparison.equal, [partition.to_json() for partition in comparison.partitions]
    return any(partition.compared.compared for partition in comparison.partitions)


def test_a_reversed_mirror_copies_the_new_records_of_its_writer_once(environment: Environment, mirror: Mirror) -> None:
    # Given a topic that was copied, and whose copy became the writer, twice there and back
    for turn in range(4):
        with copied(environment, mirror):
            pass
        began = bases(environment, mirror)
        produce(at(environment, mirror.target), mirror.topic, 100 + turn, enable_idempotence=True)
        produce(at(environment, mirror.target), mirror.topic, 7, partition=1)
        # When its mirror is turned round, by two that do the same
        new = reversed_mirror(mirror, f"switch-{turn}-{mirror.topic}", "2026-11-23T03:00:00Z", "test")
        prepare_reversal(environment, mirror, began, new)
        prepare_reversal(environment, mirror, began, new)
        mirror = new
    # Then both clusters have the same, and each record once
    with copied(environment, mirror):
        pass
    for partition, records in ((0, 300 + sum(range(100, 104))), (1, 1 + 4 * 7)):
        east, west = (content(at(environment, name), mirror.topic, partition) for name in ("east", "west"))
        assert sorted(east, key=str) == sorted(west, key=str)
        assert len(east) == records
    assert equal(environment, mirror)


def test_a_tail_that_was_not_mirrored_stays_where_it_is_and_is_not_judged(
    environment: Environment, mirror: Mirror
) -> None:
    # Given a copy that became the writer when its source had more
    with copied(environment, mirror):
        pass
    produce(at(environment, "east"), mirror.topic, 5)
    began = bases(environment, mirror)
    produce(at(environment, "west"), mirror.topic, 20)
    # When the mirror is turned round
    new = reversed_mirror(mirror, f"switch-{mirror.topic}", "2026-11-23T03:00:00Z", "test")
    prepare_reversal(environment, mirror, began, new)
    with copied(environment, new):
        pass
    # Then the old source has its tail and all that was written since, and the comparison says that they are equal
    assert len(content(at(environment, "east"), mirror.topic)) == 300 + 5 + 20
    assert len(content(at(environment, "west"), mirror.topic)) == 300 + 20
    assert equal(environment, new)


def test_a_compacted_topic_is_turned_round_only_without_a_tail_that_was_not_mirrored(
    environment: Environment, mirror: Mirror
) -> None:
    # Given a copy that became the writer, and whose source has an aborted record more; and it is compacted by now
    with copied(environment, mirror):
        pass
    aborted = produce(at(environment, "east"), mirror.topic, 0, transactional_id=f"more-{mirror.topic}")
    aborted.init_transactions(30)
    aborted.begin_transaction()
    aborted.produce(mirror.topic, b"aborted", key=b"k", partition=1)
    aborted.flush(30)
    aborted.abort_transaction(30)
    began = bases(environment, mirror)
    compact = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, mirror.topic, incremental_configs=[compact])
    for cluster in ("east", "west"):
        admin = AdminClient(at(environment, cluster))
        admin.incremental_alter_configs([resource])[resource].result(30)
    # When it is turned round, then it is; the aborted record does no harm
    prepare_reversal(
        environment, mirror, began, reversed_mirror(mirror, f"a-{mirror.topic}", "2026-11-23T03:00:00Z", "test")
    )
    # When its source has another record beyond the copy, then it is not, and nothing was begun
    more = Producer(at(environment, "east"))
    more.produce(mirror.topic, b"acknowledged", key=b"k", partition=1)
    assert more.flush(30) == 0
    new = reversed_mirror(mirror, f"b-{mirror.topic}", "2026-11-23T03:00:00Z", "test")
    for _ in range(2):
        with pytest.raises(CopyDamagedError, match="was not mirrored, and the topic is compacted"):
            prepare_reversal(environment, mirror, began, new)


def test_no_mirror_is_reversed_while_a_transaction_is_open_in_its_future_copy(
    environment: Environment, mirror: Mirror
) -> None:
    # Given a copy that became the writer while a client was in a transaction in its source
    with copied(environment, mirror):
        pass
    began = bases(environment, mirror)
    hanging = Producer({**at(environment, "east"), "transactional.id": f"hangs-{mirror.topic}"})
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.produce(mirror.topic, b"of a transaction that hangs", partition=1)
    hanging.flush(30)
    produce(at(environment, "west"), mirror.topic, 20)
    # When its mirror is to be turned round, that is refused, with the way out
    new = reversed_mirror(mirror, f"switch-{mirror.topic}", "2026-11-23T03:00:00Z", "test")
    with pytest.raises(StandsInTheWayError, match=rf"open in {mirror.topic}-1 \(producer \d+, since offset \d+\)"):
        prepare_reversal(environment, mirror, began, new)
    # And when the transaction has ended it is done
    hanging.abort_transaction(30)
    prepare_reversal(environment, mirror, began, new)
    with copied(environment, new):
        pass
    # And the end of one that had written nothing yet, which comes even later, is passed over
    fence(admin_of(environment, "east").asking(), f"late-{mirror.topic}", ((mirror.topic, 0), (mirror.topic, 1)))
    produce(at(environment, "west"), mirror.topic, 7)
    with copied(environment, new):
        pass
    assert len(content(at(environment, "east"), mirror.topic)) == 300 + 20 + 7
    assert equal(environment, new)
