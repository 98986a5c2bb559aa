"""All participants of copying are killed and stopped at random moments, for minutes: after that the copy has every
acknowledged record once, at its offset."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from ha_core.store.store import Store
from stack.clients.process import ClientProcess
from stack.clients.recorder import name_in
from stack.harness import Stack
from stack.history.delivery import acknowledged
from stack.history.history import Values
from tests.kafka.mirroring import content
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run, bootstrap, create_topic, switchyard
from tests.spark_jobs.mirror.live import client, goes_on
from tests.system.conftest import MakeRun
from tests.system.nemesis.barrage import Barrage, StackPart, Struck, counted, drawn
from tests.system.nemesis.jobs import Executors, Job, OneExecutor
from tests.system.nemesis.play import BACK_SOON, ONE_AT_A_TIME

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(1800)]
SECONDS = float(os.environ.get("NEMESIS_SECONDS", "150"))
SEED = os.environ.get("NEMESIS_SEED")
"""Seed of one run, to repeat its blows."""
SEEDS = [int(SEED)] if SEED else [1, 2, 3]
PATIENCE_S = 300.0
PARTITIONS, RATE = 2, 20
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "4000", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture(scope="module", params=["alone", "on-a-master"])
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=0, spark=request.param == "on-a-master") as running:
        yield running


@pytest.fixture
def struck(stack: Stack, tmp_path: Path) -> Iterator[Mapping[str, Struck]]:
    """Two jobs, their executors, and the services that they use."""
    with ExitStack() as opened:
        jobs = [opened.enter_context(Job(tmp_path / "jobs", stack, name)) for name in ("job-1", "job-2")]
        parts = {name: StackPart(stack, name) for name in ("cluster/east", "cluster/west", "zookeeper")}
        executors: dict[str, Struck] = {"executors": Executors(jobs), "one executor": OneExecutor(jobs)}
        yield {"job-1": jobs[0], "job-2": jobs[1], **executors, **parts}


def writers_of(run: Run, topic: str, keys: int) -> list[ClientProcess]:
    """Every kind of producer, every compression."""
    known = {"rate": RATE, "keys": keys, "settings": (BACK_SOON, ONE_AT_A_TIME)}
    transactional = {"transaction_records": 10, "transaction_open": True, **known}
    return [
        run.start("confluent-producer", f"{topic}-idem", topic, idempotence="on", compression="lz4", **known),
        run.start("confluent-producer", f"{topic}-large", topic, idempotence="on", size_bytes=2000, **known),
        run.start(
            "confluent-producer", f"{topic}-plain", topic, idempotence="off", acks="all", compression="gzip", **known
        ),
        run.start("confluent-transactions", f"{topic}-zstd", topic, compression="zstd", **transactional),
        run.start("confluent-transactions", f"{topic}-snappy", topic, compression="snappy", **transactional),
    ]


Record = tuple[object, ...]


def contents(stack: Stack, cluster: str, topic: str) -> list[list[Record]]:
    return [content(client(stack, cluster), topic, partition) for partition in range(PARTITIONS)]


def newest(records: list[Record]) -> dict[object, Record]:
    return {record[0]: record for record in records}


def assert_each_once_in_order(copied: list[Record], values: Values) -> None:
    """For producers that write no record twice."""
    last: dict[str, int] = {}
    for record in copied:
        place = values.place(name_in(record[1]))  # type: ignore[arg-type]
        assert place is not None, f"nobody sent {record}"
        producer, number = place
        if values.producers[producer].idempotent:
            assert number > last.get(producer, -1), f"{producer}-{number} comes after {producer}-{last[producer]}"
            last[producer] = number


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_record_is_in_the_copy_once_despite_kills_and_stops(
    stack: Stack, store: Store, struck: Mapping[str, Struck], make_run: MakeRun, seed: int
) -> None:
    # Given two mirrored topics, one of them compacted, with producers of all kinds
    run = make_run(stack, cluster="east")
    topics = {f"log-{seed}": (0, {}), f"state-{seed}": (50, COMPACTED)}
    for topic, (_, config) in topics.items():
        create_topic(bootstrap(stack, "east"), topic, PARTITIONS, **config)
    switchyard(stack, "mirror", "link", *topics, "--from", "east", "--to", "west", "--reason", "standby", "--yes")
    writers = {topic: writers_of(run, topic, keys) for topic, (keys, _) in topics.items()}
    for several in writers.values():
        await_records(20, *several)
    for topic in topics:
        goes_on(stack, store, topic, PARTITIONS, PATIENCE_S)
    # When all participants are killed and stopped
    barrage = Barrage(struck, drawn(seed, struck, SECONDS))
    print(f"seed {seed}: {counted(barrage.blows)}")
    try:
        with run.fault("barrage", settle_s=PATIENCE_S):
            barrage.carry_out()
        for several in writers.values():
            await_more(20, *several, timeout_s=PATIENCE_S)
        catch_up_s = [goes_on(stack, store, topic, PARTITIONS, PATIENCE_S) for topic in topics]
        for several in writers.values():
            for writer in several:
                writer.stop()
        catch_up_s += [goes_on(stack, store, topic, PARTITIONS, PATIENCE_S) for topic in topics]
        # Then the copies have caught up, and have what their sources have
        print(f"caught up after {', '.join(f'{one:.0f}' for one in catch_up_s)} s")
        for topic in topics:
            verified = switchyard(stack, "mirror", "verify", topic, "--to", "west", timeout_s=PATIENCE_S)
            assert verified["equal"], verified
        whole, compacted = topics
        # And these are all acknowledged records, once, at their offsets
        source, copied = contents(stack, "east", whole), contents(stack, "west", whole)
        assert copied == source
        result = run.assert_sound(whole)
        values = Values(run.history())
        for partition in copied:
            assert_each_once_in_order(partition, values)
        promised = {value for value, ack in acknowledged(run.history(), values).items() if ack.topic == whole}
        found = {name_in(record[1]) for partition in copied for record in partition}  # type: ignore[arg-type]
        assert promised <= found, sorted(promised - found)[:20]
        # And for the compacted topic the newest record of each key
        source, copied = contents(stack, "east", compacted), contents(stack, "west", compacted)
        for here, there in zip(source, copied, strict=True):
            assert newest(there) == newest(here)
            assert_each_once_in_order(there, values)
        kept = sum(map(len, copied))
        everything = {value for value, ack in acknowledged(run.history(), values).items() if ack.topic == compacted}
        print(f"{result}; compacted: {kept} are left of {len(everything)} that were acknowledged")
    except BaseException:
        print("\n".join(barrage.said))
        raise
