"""A topic crosses over again and again under a steady load, and readers that begin anew find all of it, once."""

from pathlib import Path

import pytest

from stack.clients.kinds import CONSUMERS
from stack.clients.process import ClientProcess
from stack.harness import Stack
from tests.kit.progress import acked, await_more, await_records, given
from tests.kit.running import Run
from tests.kit.waiting import until
from tests.system.conftest import bound_run
from tests.system.migrating import PARTITIONS, Migration
from tests.system.watching import assert_ascending, assert_no_client_has_failed

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/migration/crossing", "gateway/session/fetch", "gateway/session/produce"),
]
WAY = ("east", "west", "east", "west", "east")
RATE = 60
PIPELINED = {"rate": RATE, "idempotence": "on", "linger_ms": 1, "settings": ("batch.num.messages=4",)}


run = bound_run(PARTITIONS)


def test_new_readers_after_each_crossing_get_every_record_once_at_its_acknowledged_offset(
    run: Run, stack: Stack, name: str, tmp_path: Path
) -> None:
    # Given producers at work
    producers = [run.start("confluent-producer", f"w{number}", name, **PIPELINED) for number in range(2)]
    await_records(100, *producers)
    # When the topic crosses over there and back twice, and a fresh group begins to read before each time and at the end
    readers: list[ClientProcess] = []
    for stage, kind in enumerate(_kinds()):
        readers.append(run.start(kind, f"r{stage}", name, group=f"{name}-{stage}"))
        if stage + 1 < len(WAY):
            _cross(stack, name, (WAY[stage], WAY[stage + 1]), tmp_path)
        await_more(50, *producers)
        _caught_up(readers[-1], producers)
    run.finish(producers, readers)
    # Then every reader was given every record once, in order, and at the offset that its producer was told
    run.assert_sound(name, complete=[f"{name}-{stage}" for stage in range(len(WAY))], redelivery="never")
    assert_no_client_has_failed(run.clients)
    told = {ack.value: (ack.partition, ack.offset) for producer in producers for ack in acked(producer)}
    known = {value: place for value, place in told.items() if place[1] >= 0}
    assert len(known) > len(told) * 0.9, "nearly every record is acknowledged with its offset"
    for reader in readers:
        assert_ascending(reader)
        found = [(record.value, (record.partition, record.offset)) for record in given(reader)]
        assert len(found) == len(told)
        assert known.items() <= dict(found).items()
    # And the map tells of every stay
    assert [cut.target for cut in run.cuts([name]) if cut.partition == 0] == list(WAY[1:])


def _kinds() -> list[str]:
    """One kind of consumer after the other, one more than there are crossings."""
    kinds = sorted(CONSUMERS)
    return [kinds[stage % len(kinds)] for stage in range(len(WAY))]


def _cross(stack: Stack, topic: str, route: tuple[str, str], folder: Path) -> None:
    migration = Migration(stack, topic, route, rate=2 * RATE / PARTITIONS, preparation_s=2.0, folder=folder)
    try:
        migration.wait()
        assert migration.state == "succeeded", migration.words
    finally:
        migration.end()


def _caught_up(reader: ClientProcess, producers: list[ClientProcess]) -> None:
    """Everything acknowledged so far is read: the reader has come from the beginning through all clusters."""
    promised = {ack.value for producer in producers for ack in acked(producer)}
    until(lambda: {record.value for record in given(reader)} >= promised, f"{reader} has read what there is")
