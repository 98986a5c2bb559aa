"""Consumers that read past the gateways go on at the standby, and gateway clients go on through a forced switch: each
record once for both, though one committed number cannot serve both."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from ha_core.store.store import Store
from stack.errors import StackError
from stack.harness import Stack
from stack.history.evidence import dump_topic
from tests.kit.running import bind, bootstrap, create_topic, switchyard
from tests.kit.stacks import own_stack, revive
from tests.kit.waiting import until
from tests.system.conftest import MIRRORED_PARTITIONS, MakeRun
from tests.system.watching import led_from

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(900),
    pytest.mark.long(
        "ha_core/operations/copies/syncing", "ha_core/mirror/known_map.py", "ha_core/plan/mirror/carried.py"
    ),
]
PATIENCE_S = 90.0
LAST = 6
"""Turn in which records are written after the failover."""
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}

stack = own_stack(mirror=True, record_facts_s=1)


class Reader(NamedTuple):
    """A plain consumer, and the records that it has read: (partition, value)."""

    consumer: Consumer
    read: list[tuple[int, bytes]]

    @classmethod
    def at(cls, servers: str, group: str, topic: str, client_id: str) -> "Reader":
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "client.id": client_id,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 3,
            }
        )
        consumer.subscribe([topic])
        return cls(consumer, [])

    @property
    def has_begun(self) -> bool:
        counts = Counter(partition for partition, _ in self.read)
        return len(counts) == MIRRORED_PARTITIONS and min(counts.values()) >= 10

    def more(self, done: Callable[[], bool]) -> None:
        """Read and commit until it is done."""
        until(lambda: self._poll() or done(), lambda: f"{len(self.read)} records were read", PATIENCE_S)

    def _poll(self) -> bool:
        for message in self.consumer.consume(20, 0.2):
            assert message.error() is None, message.error()
            self.read.append((message.partition() or 0, message.value() or b""))
        if self.read and self.consumer.assignment():
            self.consumer.commit(asynchronous=False)
        return False

    def stop(self) -> None:
        self.consumer.close()


def compacted(stack: Stack, servers: str, topic: str, turn: int) -> None:
    """Few keys, written again and again."""
    producer = Producer({"bootstrap.servers": servers, "client.id": f"HA#{topic}#{topic}", "enable.idempotence": True})
    for number in range(300):
        value = f"{turn}-{number}".encode()
        producer.produce(topic, value, f"k{number % 40}".encode(), partition=number % MIRRORED_PARTITIONS)
    assert producer.flush(60) == 0
    time.sleep(1.2)  # the segment ends, and its cleaner may begin


def transactional(stack: Stack, servers: str, topic: str, turn: int) -> None:
    """Short transactions, of which every third aborts."""
    identity = f"HA#{topic}#{topic}"
    producer = Producer({"bootstrap.servers": servers, "client.id": identity, "transactional.id": f"{topic}-{turn}"})
    producer.init_transactions(60)
    for short in range(12):
        producer.begin_transaction()
        for number in range(9):
            producer.produce(topic, f"{turn}-{short}-{number}".encode(), partition=number % MIRRORED_PARTITIONS)
        producer.flush(60)
        producer.abort_transaction(60) if short % 3 == 2 else producer.commit_transaction(60)


def taken_over(stack: Stack, servers: str, topic: str, turn: int) -> None:
    """Between two turns the copying process is killed, and the next one takes the copies over."""
    producer = Producer({"bootstrap.servers": servers, "client.id": f"HA#{topic}#{topic}", "enable.idempotence": True})
    for number in range(150):
        producer.produce(topic, f"{turn}-{number}".encode(), partition=number % MIRRORED_PARTITIONS)
    assert producer.flush(60) == 0
    if turn < LAST:
        until(lambda: _killed(stack, "mirror/executor"), "the copying process runs", PATIENCE_S)


def _killed(stack: Stack, part: str) -> bool:
    try:
        stack.kill(part)
    except StackError:  # the one before was killed, and the next one has not begun
        return False
    return True


@pytest.fixture
def east_dies(stack: Stack) -> Iterator[None]:
    yield
    revive(stack, "cluster/east")


def mirrored(store: Store, topic: str, ends: dict[int, int]) -> bool:
    reports = [one for report in store.mirror_reports().values() for one in report.partitions if one.topic == topic]
    return len(reports) == MIRRORED_PARTITIONS and all(
        one.state == "copying" and one.has(ends[one.partition]) for one in reports
    )


def values(stack: Stack, cluster: str, topic: str) -> set[tuple[int, bytes]]:
    """Committed records in the cluster's own log."""
    dumps = dump_topic(cluster, bootstrap(stack, cluster), topic, {"isolation.level": "read_committed"})
    return {(dump.partition, value.encode()) for dump in dumps for value in dump.records.values()}


@pytest.mark.parametrize("made", [compacted, transactional, taken_over])
def test_a_direct_consumer_fails_over_and_a_gateway_consumer_goes_on_with_each_record_once(
    stack: Stack, store: Store, make_run: MakeRun, east_dies: None, made: Callable[[Stack, str, str, int], None]
) -> None:
    topic = f"orders-{made.__name__}"
    # Given a mirrored topic of gateway clients, with a direct group that reads east past the gateways
    create_topic(bootstrap(stack, "east"), topic, MIRRORED_PARTITIONS, **(COMPACTED if made is compacted else {}))
    bind(stack, topic, "east")
    until(lambda: led_from(stack, topic) == {"east"}, "clients are sent to east")
    switchyard(stack, "mirror", "link", topic, "--from", "east", "--to", "west", "--reason", "standby", "--yes")
    direct, client = f"report-{topic}", f"till-{topic}"
    switchyard(stack, "direct-groups", "add", f"report-{topic[:-1]}*", "--reason", "it reads past the gateways")
    for turn in range(3):
        made(stack, stack.bootstrap, topic, turn)
    past = Reader.at(bootstrap(stack, "east"), direct, topic, "past")
    through = Reader.at(stack.bootstrap, client, topic, f"HA#{topic}#{topic}")
    for reader in (past, through):
        reader.more(lambda reader=reader: reader.has_begun)  # type: ignore[misc]
    past.stop()
    # And records that neither has read, all of them mirrored
    for turn in range(3, LAST):
        made(stack, stack.bootstrap, topic, turn)
    dumps = dump_topic("east", bootstrap(stack, "east"), topic)
    until(lambda: mirrored(store, topic, {dump.partition: dump.end for dump in dumps}), "all is mirrored", PATIENCE_S)
    read_before = set(past.read)

    def brought_over() -> bool:
        found = store.checkpoints("east", "west").get(direct)
        return found is not None and sum(map(len, found.offsets.values())) == MIRRORED_PARTITIONS

    until(brought_over, store.mirror_syncs, PATIENCE_S)
    shown = {row["group"]: row["offsets"] for row in switchyard(stack, "groups")["groups"]}
    assert (shown[direct], shown[client]) == ("physical", "client")
    time.sleep(11.0)  # two passes of the sync: the last commit is there
    # When east dies, and the user's clients are switched to the copies by force
    stack.kill("cluster/east")
    document = make_run(stack, user=topic).switch("east", "west", mode="forced", unread="wait")
    assert document["result"] == "succeeded", document
    made(stack, stack.bootstrap, topic, LAST)
    # Then the direct group reads on in west, from exactly its place
    again = Reader.at(bootstrap(stack, "west"), direct, topic, "past")
    again.more(lambda: values(stack, "west", topic) <= read_before | set(again.read))
    assert len(again.read) == len(set(again.read))
    assert not read_before & set(again.read), "each record once"
    # And Kafka's own numbers tell its true lag there
    positions = again.consumer.committed(again.consumer.assignment(), timeout=30)
    ends = {one.partition: again.consumer.get_watermark_offsets(one)[1] for one in positions}
    assert sum(ends[one.partition] - one.offset for one in positions) <= 2 * MIRRORED_PARTITIONS
    again.stop()
    # And the gateway consumer, which was never restarted, has each record once as well
    through.more(lambda: values(stack, "west", topic) <= set(through.read))
    assert len(through.read) == len(set(through.read))
    through.stop()
