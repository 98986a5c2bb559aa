"""The origin dies while a crossing is open: the crossing ends without it, and no acknowledged record is lost."""

from pathlib import Path

import pytest

from ha_core.model import Topic
from ha_core.store.zookeeper import connect
from stack.clients.process import ClientProcess
from stack.harness import Stack
from tests.kit.progress import acked, await_more, await_records, given, read_all
from tests.kit.running import ZOOKEEPER_ROOT, CommandFailedError, Run, switchyard
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.conftest import bound_run
from tests.system.migrating import PARTITIONS, Migration
from tests.system.watching import assert_ascending

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/migration/crossing", "ha_core/plan/absence/crossing_without_origin.py"),
]
RATE = 60

stack = own_stack()


run = bound_run(PARTITIONS, east_dies=True)


def at_work(run: Run, name: str) -> tuple[list[ClientProcess], ClientProcess]:
    """An idempotent producer, a plain one, and a reader from the beginning."""
    small = ("batch.num.messages=8", "reconnect.backoff.max.ms=500")
    producers = [
        run.start("confluent-producer", f"w{n}-{name[-20:]}", name, rate=RATE, idempotence=idempotence, settings=small)
        for n, idempotence in enumerate(("on", "off"))
    ]
    reader = run.start("confluent-consumer", f"r-{name[-20:]}", name, seek="beginning", settings=small[1:])
    await_records(200, *producers)
    reader.wait_for(100, "delivered")
    switchyard(run.stack, "facts", "record")
    return producers, reader


def opened(run: Run, name: str, folder: Path, preparation_s: float) -> Migration:
    """An open crossing without an executor."""
    migration = Migration(run.stack, name, ("east", "west"), 2 * RATE / PARTITIONS, preparation_s, folder)
    until(lambda: migration.stage == "open", "the crossing is open")
    migration.process.kill()
    migration.process.wait()
    return migration


def known_ends(stack: Stack, name: str) -> dict[int, tuple[int | None, int]]:
    """Partition → known end and cut of east's extent."""
    store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
    try:
        found = store.read(Topic, name)
    finally:
        store.close()
    assert found is not None
    assert found[0].crossing is None
    return {p: (extents[-2].known_end, extents[-1].start) for p, extents in found[0].partitions.items()}


def assert_all_is_read(run: Run, name: str, producers: list[ClientProcess], reader: ClientProcess) -> None:
    """East is back: all acknowledged records are read, at their offsets. For the idempotent producer only records
    that east appended without an acknowledgement are duplicated; the plain one repeats records without an answer."""
    promised = {ack.value for producer in producers for ack in acked(producer)}
    read_all(promised, reader, timeout_s=60)
    assert_ascending(reader)
    places: dict[str, list[tuple[int, int]]] = {}
    for record in given(reader):
        places.setdefault(record.value, []).append((record.partition, record.offset))
    twice = {value for value, several in places.items() if len(several) > 1}
    for producer in producers:
        for ack in acked(producer):
            if ack.offset >= 0 and ack.value not in twice:
                assert places[ack.value] == [(ack.partition, ack.offset)]
    cut = {p: c for p, (_, c) in known_ends(run.stack, name).items()} if twice else {}
    for value in twice & {ack.value for ack in acked(producers[0])}:
        (partition, first), *rest = sorted(places[value])
        assert len(rest) == 1
        assert first < cut[partition] <= rest[0][1]


def test_migrate_from_fault_ends_a_crossing_whose_origin_died_above_its_cuts_without_loss(
    run: Run, stack: Stack, name: str, tmp_path: Path
) -> None:
    # Given a crossing in which every partition is already written to both clusters
    producers, reader = at_work(run, name)
    migration = opened(run, name, tmp_path, 2.0)
    cuts = migration.cuts

    def newest() -> dict[int, int]:
        return {ack.partition: ack.offset for producer in producers for ack in acked(producer)}

    until(lambda: all(newest().get(p, 0) > cut + 20 for p, cut in cuts.items()), "all have reached their cuts")

    # When the origin dies, and its topics are migrated from the fault
    stack.kill("cluster/east")
    with pytest.raises(CommandFailedError, match="--without-origin"):
        switchyard(stack, "resume", migration.operation)
    words = ("--from", "east", "--to", "west", "--unread", "wait", "--reason", "rack fire")
    proposed = switchyard(stack, "migrate-from-fault", name, *words, "--dry-run")
    document = switchyard(stack, "migrate-from-fault", name, *words, "--yes")

    # Then producers continue at once, at unchanged cuts, below which east is known to have every record
    assert proposed["crossings"] == {name: migration.operation}
    assert document["result"] == "succeeded"
    assert migration.state == "succeeded"
    await_more(200, *producers)
    assert known_ends(stack, name) == {p: (cut, cut) for p, cut in cuts.items()}
    stack.restart("cluster/east")
    checked = switchyard(stack, "origins", "check", name)
    assert {(partition["outcome"], partition["beyond"]) for partition in checked["returned"]} == {("whole", 0)}
    for producer in producers:
        producer.stop()
    assert_all_is_read(run, name, producers, reader)
    migration.end()


def test_a_crossing_below_its_cuts_ends_without_its_dead_origin_and_records_the_known_ends(
    run: Run, stack: Stack, name: str, tmp_path: Path
) -> None:
    # Given an open crossing below its cuts, which cannot be ended without its origin while the origin answers
    producers, reader = at_work(run, name)
    migration = opened(run, name, tmp_path, 60.0)
    cuts = migration.cuts
    await_more(100, *producers)
    with pytest.raises(CommandFailedError, match="answers"):
        switchyard(stack, "resume", migration.operation, "--without-origin", "--unread", "wait")
    # When the origin dies, and the crossing is ended without it
    stack.kill("cluster/east")

    document = switchyard(stack, "resume", migration.operation, "--without-origin", "--unread", "wait")
    # Then producers go on at unchanged cuts, and the history has the known ends of the origin
    assert document["result"] == "succeeded"
    await_more(200, *producers)
    ends = known_ends(stack, name)
    assert {p: cut for p, (_, cut) in ends.items()} == cuts
    assert all(0 < (known or 0) < cut for known, cut in ends.values())
    (entry,) = [
        entry
        for entry in switchyard(stack, "history", migration.operation)["history"]
        if (entry["step"], entry["outcome"]) == ("finish", "done")
    ]
    assert entry["detail"]["known_end_and_cut"] == {name: {str(p): list(ends[p]) for p in ends}}
    # When it returns
    stack.restart("cluster/east")
    checked = switchyard(stack, "origins", "check", name)
    # Then it has more records than known, and all of them are read
    assert {partition["outcome"] for partition in checked["returned"]} == {"whole"}
    assert sum(partition["beyond"] for partition in checked["returned"]) > 0
    for producer in producers:
        producer.stop()
    assert_all_is_read(run, name, producers, reader)
    migration.end()
