"""Requests for a masked cluster fail fast, and everything else goes on."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from stack.harness import Stack
from tests.kit.running import CommandFailedError, Run, bind, bootstrap, create_topic, switchyard
from tests.kit.waiting import until
from tests.system.conftest import MakeRun
from tests.system.watching import led_from

pytestmark = pytest.mark.stack
PATIENCE_S = 3.0


@pytest.fixture
def run(stack: Stack, make_run: MakeRun, name: str) -> Iterator[Run]:
    """A user bound to east, with a topic there and nowhere else; nothing is masked afterwards."""
    create_topic(bootstrap(stack, "east"), name)
    bind(stack, name, "east")
    until(lambda: led_from(stack, name) == {"east"}, "clients are sent to east")
    yield make_run(stack, user=name)
    switchyard(stack, "unmask", "east")


def test_a_cluster_masked_by_force_stops_only_its_own_clients(run: Run, name: str, make_run: MakeRun) -> None:
    # Given clients of two users in two clusters
    other = f"{name}-other"[-100:]
    create_topic(bootstrap(run.stack, "west"), other)
    bind(run.stack, other, "west")
    elsewhere = make_run(run.stack, user=other).start("confluent-producer", "o", other, rate=50)
    elsewhere.wait_for(20, "acknowledged")
    # When masking one is tried without force
    shown = switchyard(run.stack, "mask", "east", "--reason", "maintenance", "--dry-run")
    # Then its dependents are named, and it is refused
    assert name in shown["depends"]["written"]
    assert other not in shown["depends"]["written"]
    assert name in shown["depends"]["users"]
    with pytest.raises(CommandFailedError, match="--force") as refused:
        switchyard(run.stack, "mask", "east", "--reason", "maintenance")
    assert refused.value.code == 2
    # When it is masked by force
    writer, reader = clients(run, name)
    switchyard(run.stack, "mask", "east", "--reason", "maintenance", "--force")
    before = elsewhere.count("acknowledged")
    # Then its clients get write errors at once, and the others go on
    assert answered_at_once(writer, name)
    assert written(writer, name) is not None, "a write to a masked cluster is acknowledged"
    assert reader.poll(1.0) is None
    elsewhere.wait_for(before + 50, "acknowledged")
    # When it is unmasked
    switchyard(run.stack, "unmask", "east")
    # Then all of them go on
    until(lambda: written(writer, name) is None, "writes are taken again")
    message = None
    while message is None:
        message = reader.poll(0.2)
    reader.close()
    elsewhere.stop()


def clients(run: Run, name: str) -> tuple[Producer, Consumer]:
    """Both connected, and at the end of the log."""
    settings = {"bootstrap.servers": run.bootstrap, "client.id": f"HA#{name}#{name}", "log_level": 3}
    writer = Producer({**settings, "message.timeout.ms": int(PATIENCE_S * 1000)})
    assert written(writer, name) is None
    reader = Consumer({**settings, "group.id": name, "enable.auto.commit": False})
    reader.assign([TopicPartition(name, partition, 0) for partition in range(3)])
    while reader.poll(0.2) is None:
        pass
    return writer, reader


def answered_at_once(writer: Producer, name: str) -> bool:
    """METADATA of the topic is answered at once: it has no leader now."""
    begun = time.monotonic()
    topic = writer.list_topics(name, timeout=10).topics[name]
    assert all(partition.leader == -1 for partition in topic.partitions.values())
    return time.monotonic() - begun < PATIENCE_S


def written(writer: Producer, name: str) -> object:
    """The error of one record, None if it was acknowledged."""
    errors: list[object] = []
    writer.produce(name, b"record", partition=0, on_delivery=lambda error, _message: errors.append(error))
    assert writer.flush(PATIENCE_S * 4) == 0, "the client hangs beyond its own patience"
    return errors[0]
