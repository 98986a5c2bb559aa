"""Migrations without a fence while every kind of client works through the gateways."""

from typing import Any

import pytest

from stack.harness import Stack
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run, switchyard
from tests.system.watching import assert_no_client_has_failed

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/migration/crossing", "ha_core/operations/migration", "gateway/session"),
]
PRODUCERS: dict[str, dict[str, Any]] = {
    "w-confluent": {"kind": "confluent-producer"},
    "w-idempotent": {"kind": "confluent-producer", "idempotence": "on"},
    "w-python": {"kind": "kafka-python-producer"},
    "w-java": {"kind": "java-producer"},
}
CONSUMERS = ("confluent-consumer", "kafka-python-consumer")
RATE = 40


def migrate(run: Run, topic: str, origin: str, target: str, *more: str) -> dict[str, Any]:
    route = ("--from", origin, "--to", target, "--reason", "test", "--yes")
    with run.crossing():
        (batch,) = switchyard(run.stack, "migrate", topic, *route, "--cut", "predicted", *more)["batches"]
    return dict(batch)


def test_topics_cross_over_and_back_under_load(run: Run, stack: Stack, name: str) -> None:
    # Given producers and consumers of every kind at work, with half of the consumers at a gateway that
    # gets no produce for the topic
    lonely, busy = (gateway["id"] for gateway in stack.gateways)
    at = {gateway: run.client_id_at(gateway, name) for gateway in (lonely, busy)}
    consumers = [
        run.start(kind, f"r-{where}-{kind}", name, client_id=client_id, group=f"{name}-{where}-{kind}")
        for kind in CONSUMERS
        for where, client_id in at.items()
    ]
    producers = [
        run.start(client=client, topic=name, client_id=at[busy], rate=RATE, **options)
        for client, options in PRODUCERS.items()
    ]
    await_records(20, *producers)
    # When the topic migrates to west and back, each time with a predicted cut
    for origin, target in (("east", "west"), ("west", "east")):
        batch = migrate(run, name, origin, target, "--preparation", "4", "--wait")
        assert batch["result"] == "succeeded", batch
        await_more(40, *producers)
    run.finish(producers, consumers)
    # Then every record is there once, at its acknowledged offset, in order, no reader has stood still in any partition,
    # and no client has failed
    run.assert_sound(name, complete=[str(consumer.options.group) for consumer in consumers])
    assert len(run.cuts([name])) == 3 * 2
    assert_no_client_has_failed(run.clients)
    # And the map has three extents, with derived statuses
    (shown,) = (m for m in switchyard(stack, "migrations")["migrations"] if m["topic"] == name)
    assert (shown["topic"], shown["status"], shown["cut"]) == (name, "Migrated", "predicted")
    assert {part["originClusterId"] for part in shown["partitions"]} == {"west"}
    assert {step["name"] for step in batch["steps"]}.isdisjoint({"fence", "hold", "finish"})


def test_clients_notice_neither_a_rollback_nor_a_crossing_ended_by_a_barrier(run: Run, stack: Stack, name: str) -> None:
    # Given clients at work
    consumer = run.start("confluent-consumer", "r", name, group=f"{name}-r")
    producers = [run.start("confluent-producer", f"w-{on}", name, rate=RATE, idempotence=on) for on in ("off", "on")]
    await_records(20, *producers)
    # When their topic's crossing is rolled back
    batch = migrate(run, name, "east", "west", "--preparation", "600")
    assert batch["result"] == "crossing"
    assert switchyard(stack, "rollback", batch["operation"])["result"] == "undone"
    await_more(40, *producers)
    # When another one, which the command does not wait for, is ended by a barrier
    batch = migrate(run, name, "east", "west", "--preparation", "600")
    await_more(40, *producers)
    ended = switchyard(stack, "resume", batch["operation"], "--finish-with-barrier")
    assert ended["result"] == "succeeded"
    await_more(40, *producers)
    run.finish(producers, [consumer])
    # Then every record is there once, in order
    run.assert_sound(name, complete=[f"{name}-r"])
