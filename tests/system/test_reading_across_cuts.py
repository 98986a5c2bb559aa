"""Consumers that read, seek and lag over the cuts of a topic that has moved."""

import time

import pytest

from stack.clients.kinds import CONSUMERS
from stack.history.events import Delivered, TransactionEnded
from tests.kit.running import Run
from tests.system.conftest import bound_run

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/session/fetch")]
SEEKERS = ("confluent-consumer", "kafka-python-consumer", "aiokafka-consumer")
STAYS = ("east", "west", "east")
PER_STAY = 60


run = bound_run(partitions=2)


def write_stays(run: Run, name: str) -> list[int]:
    """`PER_STAY` records in each stay, over both partitions, by the producer stay0, stay1 …; a time in milliseconds
    between the stays."""
    times = []
    for number, cluster in enumerate(STAYS):
        if number:
            time.sleep(0.05)
            times.append(int(time.time() * 1000))
            run.switch(STAYS[number - 1], cluster)
        run.start("confluent-producer", f"stay{number}", name, count=PER_STAY, rate=0, keys=16).wait()
    return times


def stays_seen(run: Run, reader: str) -> dict[str, int]:
    """How many records of each stay a reader was given."""
    client = next(client for client in run.clients if client.name == reader)
    found: dict[str, int] = {}
    for event in client.history().clients[reader]:
        if isinstance(event, Delivered):
            stay = event.value.split("-")[0]
            found[stay] = found.get(stay, 0) + 1
    return found


@pytest.mark.parametrize("kind", SEEKERS)
def test_seeks_to_beginning_end_and_times_work_across_two_cuts(run: Run, name: str, kind: str) -> None:
    # Given a topic with three stays
    first_cut_ms, second_cut_ms = write_stays(run, name)
    # When consumers seek to each kind of place
    seeks = {
        "beginning": "beginning",
        "end": "end",
        "first-stay": "offset:3",
        "second-stay": f"timestamp:{first_cut_ms}",
        "third-stay": f"timestamp:{second_cut_ms}",
        "future": f"timestamp:{int(time.time() * 1000) + 3_600_000}",
    }
    readers = [run.start(kind, reader, name, seek=seek, to_end=True) for reader, seek in seeks.items()]
    for reader in readers:
        reader.wait()
    # Then they get the records there, of every extent
    every = {f"stay{number}": PER_STAY for number in range(3)}
    assert stays_seen(run, "beginning") == every
    assert stays_seen(run, "end") == {}
    assert stays_seen(run, "first-stay") == {**every, "stay0": PER_STAY - 2 * 3}
    assert stays_seen(run, "second-stay") == {"stay1": PER_STAY, "stay2": PER_STAY}
    assert stays_seen(run, "third-stay") == {"stay2": PER_STAY}
    assert stays_seen(run, "future") == {}
    run.assert_sound(name, complete=["beginning"], redelivery="never")


@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_group_that_lags_across_two_cuts_continues_from_its_offset_through_all_clusters(
    run: Run, name: str, kind: str
) -> None:
    # Given a group that has stopped before the topic moved twice
    run.start("confluent-producer", "before", name, count=40, rate=0).wait()
    early = run.start(kind, "early", name, group=name, commit="batch")
    early.wait_for(40, "delivered")
    early.stop()
    write_stays(run, name)
    # When it goes on
    late = run.start(kind, "late", name, group=name, commit="batch")
    late.wait_for(3 * PER_STAY, "delivered")
    late.stop()
    # Then it gets all three stays
    assert stays_seen(run, "late") == {f"stay{number}": PER_STAY for number in range(3)}
    run.assert_sound(name, complete=[name], redelivery="never")


@pytest.mark.parametrize("kind", CONSUMERS)
def test_records_aborted_before_a_cut_stay_hidden_from_read_committed_readers(run: Run, name: str, kind: str) -> None:
    # Given a topic that has moved after transactions, some of which were aborted
    writer = run.start("confluent-transactions", "w", name, count=120, transaction_records=10, rate=0)
    writer.wait()
    run.switch("east", "west")
    run.start("confluent-producer", "after", name, count=30, rate=0).wait()
    # When readers of both levels read it
    clean = run.start(kind, "clean", name, group=f"{name}-clean", isolation="read_committed")
    dirty = run.start(kind, "dirty", name, group=f"{name}-dirty", isolation="read_uncommitted")
    dirty.wait_for(150, "delivered")
    ended = [event for event in writer.history().clients["w"] if isinstance(event, TransactionEnded)]
    committed = 10 * sum(event.outcome == "committed" for event in ended)
    clean.wait_for(committed + 30, "delivered")
    for reader in (clean, dirty):
        reader.stop()
    # Then read_committed readers have the committed records, the others all
    assert 0 < committed < 120
    assert clean.count("delivered") == committed + 30
    run.assert_sound(name, complete=[f"{name}-clean", f"{name}-dirty"], redelivery="never")
