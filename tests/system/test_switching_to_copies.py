"""A mirrored topic is switched to its copy and back under load, by the job's copiers and the switch's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ha_core.model import Topic
from ha_core.store.store import Store
from stack.harness import Stack
from stack.history.checker import check
from stack.history.history import LogDump
from tests.kit.running import Run, switchyard
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.conftest import MIRRORED_PARTITIONS, mirrored_run
from tests.system.watching import assert_no_client_has_failed

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/move", "ha_core/plan/mirror/standby.py", "spark_jobs/mirror"),
]


stack = own_stack(mirror=True)


run = pytest.fixture(mirrored_run)


def copied(store: Store, name: str, target: str) -> bool:
    """Whether the job copies all partitions there, with little lag."""
    reports = [one for report in store.mirror_reports().values() for one in report.partitions]
    found = [one for one in reports if one.mirror == f"{name}@{target}"]
    return len(found) == MIRRORED_PARTITIONS and all(one.state == "copying" and one.within(500) for one in found)


def in_client_offsets(topic: Topic, dump: LogDump) -> LogDump:
    """The writer's log in client offsets. :raises AssertionError: it has a record in no extent."""
    extents = topic.partitions[dump.partition]
    records: dict[int, str] = {}
    for physical, value in dump.records.items():
        (extent,) = (one for one in extents if one.holds(physical))
        records[extent.to_client(physical)] = value
    return replace(dump, start=0, end=max(records, default=-1) + 1, records=records)


def there_and_back(run: Run, stack: Stack, store: Store, name: str, rounds: int) -> None:
    # Given clients at work on a mirrored topic
    readers = [
        run.start("confluent-consumer", "r-confluent", name, group=f"{name}-c"),
        run.start("kafka-python-consumer", "r-python", name, group=f"{name}-p"),
    ]
    writers = [
        run.start("confluent-producer", "w-idempotent", name, rate=50, idempotence="on"),
        run.start("confluent-producer", "w-plain", name, rate=50, idempotence="off", acks="all"),
    ]
    for client, what in [*((one, "acknowledged") for one in writers), *((one, "delivered") for one in readers)]:
        client.wait_for(20, what, timeout_s=60)
    # When the topic is switched to its copy and back, repeatedly
    for here, there in [("east", "west"), ("west", "east")] * rounds:
        until(lambda there=there: copied(store, name, there), f"it is mirrored to {there}", 240)  # type: ignore[misc]
        document = run.switch(here, there)
        assert document["result"] == "succeeded", document
        entries = switchyard(stack, "history", document["operation"])["history"]
        (fenced_ms,) = (one["detail"]["fenced_ms"] for one in entries if "fenced_ms" in one["detail"])
        print(f"{here} to {there}: clients waited {fenced_ms} ms")
        # Then everything is read there, and the mirror is reversed
        view = store.load()
        assert view.topics[name].clusters == {there}
        assert [one.source for one in view.mirrors.values() if one.topic == name] == [there]
        for writer in writers:
            writer.wait_for(writer.count("acknowledged") + 30, "acknowledged", timeout_s=60)
    # Then every acknowledged record was delivered once, and no client has failed
    run.finish(writers, readers)
    reader = run.start("confluent-consumer", "r-all", name, seek="beginning")
    topic = store.load().topics[name]
    logs = tuple(in_client_offsets(topic, dump) for dump in run.dumps(name) if dump.cluster == topic.writer)
    reader.wait_for(sum(len(dump.records) for dump in logs), "delivered", timeout_s=60)
    reader.stop()
    result = check(replace(run.history(name), logs=logs, cuts=()), complete_readers=[f"{name}-c", f"{name}-p"])
    assert result.sound, str(result)
    assert_no_client_has_failed([*writers, *readers, reader])
    # And the copy equals the writer's log
    until(lambda: copied(store, name, here), "it is mirrored", 60)
    assert switchyard(stack, "mirror", "verify", name, "--to", here)["equal"]


@pytest.mark.timeout(600)
def test_two_rounds_to_the_copy_and_back_lose_and_double_nothing(
    run: Run, stack: Stack, store: Store, name: str
) -> None:
    there_and_back(run, stack, store, name, 2)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_five_rounds_to_the_copy_and_back_lose_and_double_nothing(
    run: Run, stack: Stack, store: Store, name: str
) -> None:
    there_and_back(run, stack, store, name, 5)
