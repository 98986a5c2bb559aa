"""Every client and compression, without gateways and through them: groups, commits, takeovers, transactions, seeks.

The runs without gateways validate the kit; the others show that a gateway changes nothing.
"""

import re
import time

import pytest

from ha_core.operations.engine.environment import EnvironmentSettings, connect
from stack.clients.kinds import COMPRESSIONS, CONSUMERS, PRODUCERS, knows
from stack.harness import Stack
from stack.history.events import ClientStopped, Committed, Delivered, TransactionEnded
from tests.kit.progress import await_records
from tests.kit.running import ZOOKEEPER_ROOT, Run, bootstrap, create_topic
from tests.system.conftest import MakeRun

pytestmark = pytest.mark.stack
SEEKERS = ("confluent-consumer", "kafka-python-consumer", "aiokafka-consumer")


VALIDATING_THE_KIT = pytest.mark.long("stack/clients", "stack/history")


@pytest.fixture(params=[pytest.param("directly", marks=VALIDATING_THE_KIT), "through-gateways"])
def run(request: pytest.FixtureRequest, stack: Stack, make_run: MakeRun, name: str) -> Run:
    """Clients of their own user, and a topic in cluster east named after the test."""
    create_topic(bootstrap(stack, "east"), name)
    return make_run(stack, cluster="east" if request.param == "directly" else None, user=name)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_consumer_reads_what_every_producer_wrote(run: Run, name: str, compression: str) -> None:
    # Given consumers of every kind that knows the codec
    reading = [kind for kind in CONSUMERS if knows(kind, compression)]
    consumers = [run.start(kind, f"r-{kind}", name, group=f"{name}-{kind}") for kind in reading]
    # When producers of every such kind write with it
    written = {"compression": compression, "count": 150, "rate": 150, "size_bytes": 200}
    producers = [run.start(kind, f"w-{kind}", name, **written) for kind in PRODUCERS if knows(kind, compression)]
    await_records(150, *producers)
    run.finish(producers, consumers)
    # Then every group has got every record, once
    result = run.assert_sound(name, complete=[f"{name}-{kind}" for kind in reading], redelivery="never")
    assert result.acknowledged == 150 * len(producers)
    assert all(isinstance(client.history().clients[client.name][-1], ClientStopped) for client in run.clients)


@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_group_loses_no_record_when_a_member_is_killed_and_replaced(run: Run, name: str, kind: str) -> None:
    # Given a member of a group, at work
    producer = run.start("confluent-producer", "w", name, rate=200)
    # Where there is no static membership, its partitions are waited for until its session ends.
    own = ("sessionTimeout=10000",) if kind == "kafkajs-consumer" else ()
    first = run.start(kind, "r1", name, group=name, commit="batch", instance_id="one", settings=own)
    first.wait_for(100, "delivered")
    # When it is killed, and another one takes its place
    first.kill()
    second = run.start(kind, "r2", name, group=name, commit="batch", instance_id="one", settings=own)
    second.wait_for(100, "delivered")
    run.finish([producer], [second])
    # Then the group has got everything
    run.assert_sound(name, complete=[name])
    assert any(isinstance(event, Committed) for event in second.history().clients["r2"])


def test_gateways_know_the_software_of_group_members(stack: Stack, make_run: MakeRun, name: str) -> None:
    # Given a group member that reports its software (KIP-511)
    create_topic(bootstrap(stack, "east"), name)
    run = make_run(stack, user=name)
    writer = run.start("confluent-producer", "w", name, count=10, rate=100)
    reader = run.start("confluent-consumer", "r", name, group=name)
    # When it has read something
    reader.wait_for(10, "delivered")
    run.finish([writer], [reader])
    # Then its name and version are in its user's usage
    with connect(EnvironmentSettings(stack.zookeeper, ZOOKEEPER_ROOT), by="test:operator") as environment:
        used = environment.store.usage()[name]
    for use in (*used.groups[name], *used.topics[name]):
        assert re.fullmatch(r"(confluent-kafka-python|librdkafka)/\d.*", use.software or ""), use


def test_read_committed_readers_get_no_aborted_record_and_other_readers_get_all(run: Run, name: str) -> None:
    # Given a producer of transactions, some of which it aborts
    writer = run.start("confluent-transactions", "w", name, count=200, transaction_records=10)
    # When readers of both levels read all there is
    clean = [
        run.start(kind, f"clean-{kind}", name, group=f"{name}-{kind}", isolation="read_committed") for kind in CONSUMERS
    ]
    dirty = run.start("confluent-consumer", "dirty", name, group=f"{name}-dirty", isolation="read_uncommitted")
    writer.wait(60)
    dirty.wait_for(200, "delivered")
    run.finish([writer], [*clean, dirty])
    # Then read_committed readers have the committed records, the others all
    ended = [event for event in writer.history().clients["w"] if isinstance(event, TransactionEnded)]
    committed = 10 * sum(event.outcome == "committed" for event in ended)
    assert 0 < committed < 200
    groups = [f"{name}-dirty", *(f"{name}-{kind}" for kind in CONSUMERS)]
    run.assert_sound(name, complete=groups, redelivery="never")
    assert [client.count("delivered") for client in clean] == [committed] * len(clean)


@pytest.mark.parametrize("kind", SEEKERS)
def test_a_consumer_seeks_to_the_beginning_to_a_time_to_an_offset_and_to_the_end(
    run: Run, name: str, kind: str
) -> None:
    # Given records before a moment, and after it
    run.start("confluent-producer", "before", name, count=40).wait(60)
    time.sleep(0.05)
    middle_ms = int(time.time() * 1000)
    run.start("confluent-producer", "after", name, count=30).wait(60)
    # When a consumer seeks to each kind of position
    readers = {
        seek: run.start(kind, f"r-{seek.partition(':')[0]}", name, seek=seek, to_end=True)
        for seek in ("beginning", f"timestamp:{middle_ms}", "offset:0", "end")
    }
    for reader in readers.values():
        reader.wait(60)
    # Then it gets the records there
    found = {
        seek.partition(":")[0]: [e.value for e in next(iter(r.history().clients.values())) if isinstance(e, Delivered)]
        for seek, r in readers.items()
    }
    counts = {seek: len(values) for seek, values in found.items()}
    assert counts == {"beginning": 70, "timestamp": 30, "offset": 70, "end": 0}
    assert {value.split("-")[0] for value in found["timestamp"]} == {"after"}
    run.assert_sound(name, complete=["r-beginning", "r-offset"], redelivery="never")
