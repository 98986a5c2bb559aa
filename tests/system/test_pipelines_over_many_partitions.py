"""Idempotent producers with many batches in flight, over hundreds of partitions, while a topic moves back and forth and
gateways stop: batches that are sent again afterwards are in the log once.

They used to be duplicated if a resumed gateway had rejected a batch left in an old connection's socket: the client's
later batches waited for it in vain, and when it was forgotten, after five seconds, one batch overtook the one
before it. Its broker answered OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka bumped its epoch, and repeated unanswered
batches on other partitions. An epoch bump alone duplicates nothing, and is more frequent: none is allowed.

A failure reports both clusters' batches of the partition, and the gateways' state of its producers; the clients log
their epoch handling (`debug=eos`).
"""

import os
import random
import threading
import time
from collections.abc import Iterator

import pytest

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.security import NO_SECURITY
from ha_core.model import Cluster
from ha_core.store.zookeeper import connect
from ha_core.wire import ApiKey
from ha_core.wire.records import Batch, batches
from stack.clients.process import ClientProcess
from stack.harness import Stack
from stack.history.checker import Result
from tests.kit.progress import await_more, await_records
from tests.kit.running import ZOOKEEPER_ROOT, Run, bind, bootstrap, create_topic, switch
from tests.kit.stacks import own_stack
from tests.system.conftest import MakeRun

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(1800)]
GATEWAYS, PARTITIONS, MOVES = 3, 200, 10
STOPS_S = (0.5, 2.5, 7.0, 9.0, 12.0)
SEED = int(os.environ.get("PIPELINES_SEED", "21"))
SOON = "reconnect.backoff.max.ms=500"
LOGGED = ("debug=eos", "log_level=7")
PIPELINES = {
    "at-once": {"rate": 150, "settings": (SOON, *LOGGED, "linger.ms=0")},
    "few-keys": {"rate": 60, "keys": 7, "linger_ms": 20, "settings": (SOON, *LOGGED)},
    "small-batches": {"rate": 120, "linger_ms": 1, "settings": (SOON, *LOGGED, "batch.num.messages=4")},
    "two-at-once": {"rate": 200, "keys": 5, "linger_ms": 1, "settings": (SOON, *LOGGED, "batch.num.messages=2")},
    "large": {"rate": 4, "size_bytes": 400_000, "settings": (SOON, *LOGGED)},
}


stack = own_stack(gateways=GATEWAYS)


def test_batches_that_pipelines_resend_after_their_gateways_stood_still_are_in_the_log_once(
    stack: Stack, make_run: MakeRun
) -> None:
    # Given producers that pipeline, and a reader
    chance, name = random.Random(SEED), f"pipelines-{SEED}"
    for cluster in ("west", "east"):  # in west too: so no move waits for their creation
        create_topic(bootstrap(stack, cluster), name, PARTITIONS)
    bind(stack, name, "east")
    run = make_run(stack, user=name)
    reader = run.start("confluent-consumer", "reader", name, group=name, settings=(SOON,))
    producers = [
        run.start("confluent-producer", called, name, idempotence="on", **options)
        for called, options in PIPELINES.items()
    ]
    await_records(10, *producers, timeout_s=90)
    # When their topic moves back and forth, and two gateways stop meanwhile, sometimes for longer than their lease
    for number in range(MOVES):
        origin, target = ("east", "west") if number % 2 == 0 else ("west", "east")
        still = chance.sample(range(1, GATEWAYS + 1), 2)
        thread = threading.Thread(target=_stand_still, args=(run, still, chance.choice(STOPS_S)))
        thread.start()
        time.sleep(chance.uniform(0, 4))
        try:
            switch(stack, f"user:{name}", origin=origin, target=target)
        finally:
            thread.join()
        _go_on(producers, reader)
    # Then all acknowledged records are there once
    run.finish(producers, [reader])
    result = run.verdict(name, complete=[name])
    assert result.sound, f"seed {SEED}: {result}\n{_held(stack, name, result)}"
    # And no producer had to bump its epoch, which would duplicate unanswered batches
    assert not (raised := _raised(run, producers)), f"seed {SEED}: {raised}"


def _stand_still(run: Run, gateways: list[int], for_s: float) -> None:
    first, second = (f"gateway/{number}" for number in gateways)
    with run.fault(first, settle_s=6.0):
        run.stack.pause(first)
        run.stack.pause(second)
        time.sleep(for_s)
        run.stack.resume(first)
        run.stack.resume(second)


def _go_on(producers: list[ClientProcess], reader: ClientProcess) -> None:
    for producer in producers:
        more = 3 if producer.name == "large" else 15
        await_more(more, producer, timeout_s=60)
    await_more(15, reader, timeout_s=60)


def _raised(run: Run, producers: list[ClientProcess]) -> list[str]:
    """Log lines of the clients about epoch bumps."""
    logs = (run.directory / f"{producer.name}.log" for producer in producers)
    return [line for log in logs for line in log.read_text(errors="replace").splitlines() if "epoch bump" in line]


def _held(stack: Stack, name: str, result: Result) -> str:
    """State of the partitions with a fault: map, last sequences of producers, and every batch."""
    store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
    try:
        view = store.load()
    finally:
        store.close()
    sequences, lines = view.sequences.get(name), []
    for partition in sorted(
        {violation.partition for violation in result.violations if violation.partition is not None}
    ):
        lines += [f"partition {partition}", *(f"  {extent}" for extent in view.topics[name].extents(partition))]
        if sequences is not None:
            lines.append(f"  {sequences.terms.get(partition)}: {sequences.partitions.get(partition)}")
        for cluster in ("east", "west"):
            lines += [f"  {cluster} {batch}" for batch in _batches(stack, cluster, name, partition)]
    return "\n".join(lines)


def _batches(stack: Stack, cluster: str, name: str, partition: int) -> Iterator[Batch]:
    brokers = Brokers(Cluster(name=cluster, bootstrap=bootstrap(stack, cluster)), NO_SECURITY, 20.0)
    try:
        asking, at = brokers.asking(), 0
        (topic,) = asking.metadata({name})["topics"]
        leader = next(one["leader_id"] for one in topic["partitions"] if one["partition_index"] == partition)
        while True:
            entry = {"partition": partition, "fetch_offset": at, "partition_max_bytes": 1 << 20}
            whole = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1}
            asked = {**whole, "topics": [{"topic": name, "partitions": [entry]}]}
            (answered,) = asking.call(leader, ApiKey.FETCH, asked, 12)["responses"]
            records = answered["partitions"][0]["records"] or b""
            found = list(batches(records, 0, len(records)))
            if not found:
                return
            yield from found
            at = found[-1].last_offset + 1
    finally:
        brokers.close()
