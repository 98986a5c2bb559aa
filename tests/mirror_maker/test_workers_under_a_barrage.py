"""Two workers share a flow while they, the brokers and ZooKeeper are killed and stopped at random. Afterwards each
remote partition equals its source, and each checkpoint leads to the record that its group had reached."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stack.clients.process import ClientProcess
from stack.harness import Stack
from tests.kit.checkpoints import checkpoints, judged, newest
from tests.kit.flow_workers import KeptWorker
from tests.kit.flows import CopiedRecord, committed, numbered, write_flows
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run, bootstrap, create_topic
from tests.kit.stacks import own_stack
from tests.system.nemesis.barrage import Barrage, StackPart, Struck, counted, drawn
from tests.system.nemesis.play import BACK_SOON, ONE_AT_A_TIME

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(1800)]
SECONDS = float(os.environ.get("NEMESIS_SECONDS", "150"))
SEED = os.environ.get("NEMESIS_SEED")
SEEDS = [int(SEED)] if SEED else [1, 2, 3]
PATIENCE_S = 240.0
LONG_S = 60.0
PARTITIONS, RATE = 6, 40
FLOW = {
    "east->west.enabled": "true",
    "east->west.topics": "log-.*",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "2",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}
Numbered = list[tuple[int, CopiedRecord]]

stack = own_stack(scope="module", gateways=0)


def until_equal(east: str, west: str, topic: str, why: Callable[[], str]) -> tuple[list[Numbered], list[Numbered]]:
    """Wait until source and copy have equally many records; returns offsets and records of all partitions of both."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        sources = [numbered(east, topic, partition) for partition in range(PARTITIONS)]
        copies = [numbered(west, f"east.{topic}", partition) for partition in range(PARTITIONS)]
        if [len(one) for one in sources] == [len(one) for one in copies]:
            return sources, copies
        lengths = [(len(here), len(there)) for here, there in zip(sources, copies, strict=True)]
        assert time.monotonic() < deadline, f"{lengths}\n{why()}"
        time.sleep(2)


def writers_of(run: Run, topic: str) -> list[ClientProcess]:
    known = {"rate": RATE, "settings": (BACK_SOON, ONE_AT_A_TIME), "keys": 0}
    transactional = {"transaction_records": 10, "transaction_open": True, **known}
    return [
        run.start("confluent-producer", f"{topic}-idem", topic, idempotence="on", compression="lz4", **known),
        run.start("confluent-producer", f"{topic}-plain", topic, idempotence="on", size_bytes=500, **known),
        run.start("confluent-transactions", f"{topic}-zstd", topic, compression="zstd", **transactional),
        run.start("confluent-transactions", f"{topic}-short", topic, **known, transaction_records=3),
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_is_copied_once_and_groups_resume_exactly_despite_kills_and_stops(
    stack: Stack, tmp_path: Path, seed: int
) -> None:
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    topic = f"log-{seed}"
    create_topic(east, topic, PARTITIONS)
    file = write_flows(tmp_path, {"east": east, "west": west}, FLOW)
    options = ["--zookeeper", stack.zookeeper, "--clusters", "west"]
    run = Run(stack, tmp_path / "run", cluster="east")
    with ExitStack() as opened:
        opened.callback(run.end)
        workers = [opened.enter_context(KeptWorker(file, options)) for _ in range(2)]

        def said() -> str:
            return "\n".join(f"worker {number}:\n{worker.text()}" for number, worker in enumerate(workers))

        writers = writers_of(run, topic)
        groups: dict[str, dict[str, Any]] = {
            f"head-{seed}": {"commit": "batch"},
            f"paced-{seed}": {"commit": "batch", "pace": 60.0},
        }
        readers = [
            run.start("confluent-consumer", group, topic, group=group, isolation="read_committed", **how)
            for group, how in groups.items()
        ]
        await_records(50, *writers, *readers)
        parts = [StackPart(stack, name) for name in ("cluster/east", "cluster/west", "zookeeper")]
        struck: Mapping[str, Struck] = {part.name: part for part in parts} | {
            f"worker {number}": worker for number, worker in enumerate(workers)
        }
        barrage = Barrage(struck, drawn(seed, [*struck, *(f"worker {n}" for n in (0, 1, 0, 1))], SECONDS, LONG_S))
        print(f"seed {seed}: {counted(barrage.blows)}")
        try:
            barrage.carry_out()
            await_more(50, *writers, *readers, timeout_s=PATIENCE_S)
            for client in (*writers, *readers):
                client.stop()
            sources, copies = until_equal(east, west, topic, said)
            for here, there in zip(sources, copies, strict=True):
                assert [record for _, record in there] == [record for _, record in here]
            assert_groups_go_on_exactly(east, west, topic, list(groups), sources, copies, said)
            assert not [code for worker in workers for code, _ in worker.ended if code != 0], said()
        except BaseException:
            print("\n".join(barrage.said))
            print(said())
            raise


def assert_groups_go_on_exactly(
    east: str,
    west: str,
    topic: str,
    groups: list[str],
    sources: list[Numbered],
    copies: list[Numbered],
    why: Callable[[], str],
) -> None:
    remote = f"east.{topic}"
    at = {
        (group, remote, partition): offset
        for group in groups
        for partition in range(PARTITIONS)
        if (offset := committed(east, group, topic, partition)) >= 0
    }
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = checkpoints(west, "east")
        last = newest(found)
        late = {key: (offset, last.get(key)) for key, offset in at.items() if key not in last}
        source_offsets = {(remote, number): [offset for offset, _ in one] for number, one in enumerate(sources)}
        copy_offsets = {(remote, number): [offset for offset, _ in one] for number, one in enumerate(copies)}
        # The group's own position counts: a group that only passed aborted records gets no new checkpoint.
        positions = [replace(last[key], upstream_offset=offset) for key, offset in at.items() if key in last]
        inexact = [one for one in judged(positions, source_offsets, copy_offsets) if one.again or one.passed_over]
        behind = {
            key: (committed(west, *key), last[key].downstream_offset)
            for key in at
            if key in last and committed(west, *key) != last[key].downstream_offset
        }
        if not late and not inexact and not behind:
            break
        assert time.monotonic() < deadline, f"{late}\n{inexact}\n{behind}\n{why()}"
        time.sleep(1)
    everything = [one for one in judged(found, source_offsets, copy_offsets) if one.checkpoint.group in groups]
    assert not [one for one in everything if one.passed_over], why()
    print(f"{len(everything)} checkpoints, {sum(one.again > 0 for one in everything)} of them below their record")
