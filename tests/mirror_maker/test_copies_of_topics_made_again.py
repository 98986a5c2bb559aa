"""Copies of a source topic that was created again: they continue above the records of the earlier copier."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from ha_core.flows.remote_plan import link_of
from ha_core.kafka.admin import Admin
from ha_core.kafka.brokers import topic_entries
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.mirror.notes import CopyId
from ha_core.mirror.progress import Progress
from ha_core.mirror.split import Record, pack
from ha_core.mirror_client.copy_notes import COPIES_LOG, read_copy_notes
from ha_core.mirror_maker.continuing import EarlierGenerations
from ha_core.mirror_maker.copier import COPIES_LOG_PARTITIONS, noted_in_log
from ha_core.model import Cluster
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.copied_batch import claim
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from tests.kafka.mirroring import copying, wait_until
from tests.kit.flows import delete_topic, produce, records
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
FLOW = "east->west"

stack = own_stack(scope="module", gateways=0)


@pytest.fixture
def admins(stack: Stack) -> Iterator[tuple[Admin, Admin]]:
    with ExitStack() as opened:
        east, west = (
            opened.enter_context(Admin(Cluster(name=name, bootstrap=bootstrap(stack, name)), SecurityProfile()))
            for name in ("east", "west")
        )
        ensure_copy_log(west, COPIES_LOG, COPIES_LOG_PARTITIONS)
        yield east, west


def copy_id(east: Admin, west: Admin, topic: str) -> CopyId:
    remote = f"east.{topic}"
    link = link_of(FLOW, east.list_topics()[topic].topic_id, west.list_topics()[remote].topic_id)
    return CopyId(link, remote, 0)


def written(west: Admin, id_: CopyId, progress: Progress) -> int:
    """Append a record as the writer of this progress; returns the error code."""
    batch = pack([Record.of(0, int(time.time() * 1000), b"k", b"from a request that was held up")], 0)
    claim(batch, 0, *progress.writer, progress.sequence)
    entries = topic_entries([(id_.topic, {"index": 0, "records": bytes(batch)})], "partition_data")
    message = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": entries}
    node = west.leaderships([(id_.topic, 0)])[id_.topic, 0].node
    answer = west.asking().call(node, ApiKey.PRODUCE, message, 9)
    return int(answer["responses"][0]["partition_responses"][0]["error_code"])


def test_a_delayed_request_of_the_first_topics_copier_is_refused(stack: Stack, admins: tuple[Admin, Admin]) -> None:
    """The earlier copier has another transactional id than the new one, whose fence did not stop it: its record got
    into the copy, and the new copier stopped for good."""
    east, west = admins
    address = bootstrap(stack, "east")
    create_topic(address, "orders", 1)
    west.create_topics([TopicSpec("east.orders", 1, 1)])
    produce(address, "orders", (b"first %d" % number for number in range(20)))
    first = noted_in_log(copy_id(east, west, "orders"), "orders")
    with copying(east, west, [first], {}) as job:
        wait_until(lambda: west.ends([first.key])[first.key].log_end >= 21, job.statuses)
        wait_until(lambda: west.notes_of([first])[first.id].progress is not None, job.statuses)
    reached = job.reached(first.id)
    assert reached is not None
    delete_topic(address, "orders")
    create_topic(address, "orders", 1)
    produce(address, "orders", (b"second %d" % number for number in range(10)))
    second = noted_in_log(copy_id(east, west, "orders"), "orders")
    settings = {"bootstrap.servers": bootstrap(stack, "west")}
    earlier = EarlierGenerations(FLOW, east, west, partial(read_copy_notes, settings))
    assert earlier.begin([second]) == [second]
    assert written(west, second.id, reached.progress) == ErrorCode.INVALID_PRODUCER_EPOCH
    with copying(east, west, [second], {}) as job:
        wait_until(lambda: len(records(settings["bootstrap.servers"], "east.orders")) == 30, job.statuses)
    assert earlier.begin([second]) == [second]  # a repeated run changes nothing
    values = [record.value for record in records(settings["bootstrap.servers"], "east.orders")]
    assert values == [b"first %d" % number for number in range(20)] + [b"second %d" % number for number in range(10)]
