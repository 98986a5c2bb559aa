"""Single partitions move between clusters while clients write to all of them through the gateways."""

from typing import Any

import pytest

from stack.harness import Stack
from tests.kit.progress import await_more, await_records
from tests.kit.running import CommandFailedError, Run, switchyard
from tests.system.watching import assert_no_client_has_failed, led_from

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/plan/move/planner.py", "ha_core/plan/move/closure.py")]
RATE = 60


def migrate(stack: Stack, what: str, origin: str, target: str, *more: str) -> dict[str, Any]:
    route = ("--from", origin, "--to", target, "--reason", "test", "--yes")
    (batch,) = switchyard(stack, "migrate", what, *route, *more)["batches"]
    assert batch["result"] == "succeeded", batch
    return dict(batch)


def writers(stack: Stack, topic: str) -> dict[int, str]:
    """Partition → the target of its newest migration."""
    (shown,) = (m for m in switchyard(stack, "migrations")["migrations"] if m["topic"] == topic)
    return {part["partition"]: part["targetClusterId"] for part in shown["partitions"]}


def test_partitions_migrate_one_by_one_and_clients_see_the_whole_topic(run: Run, stack: Stack, name: str) -> None:
    # Given producers and consumers at work on all three partitions
    consumers = [run.start(kind, f"r-{kind}", name, group=f"{name}-{kind}") for kind in ("confluent-consumer",)]
    producers = [
        run.start("confluent-producer", "w-idempotent", name, rate=RATE, idempotence="on"),
        run.start("java-producer", "w-java", name, rate=RATE),
    ]
    await_records(20, *producers)

    def more() -> None:
        await_more(40, *producers)

    # When one migrates without a fence, and another one under a fence
    migrate(stack, f"{name}:1", "east", "west", "--cut", "predicted", "--preparation", "2", "--wait")
    more()
    assert writers(stack, name) == {1: "west"}
    assert led_from(stack, name) == {"east", "west"}
    migrate(stack, f"{name}:2", "east", "west", "--cut", "barrier")
    more()
    # And a partition that has already moved is refused by its cluster
    with pytest.raises(CommandFailedError, match="partition 1 is written in west, not in east"):
        migrate(stack, f"{name}:0-1", "east", "west", "--cut", "barrier")
    # And moving the topic as a whole takes the last of them
    migrate(stack, name, "east", "west", "--cut", "predicted", "--preparation", "2", "--wait")
    more()
    assert led_from(stack, name) == {"west"}
    # And one goes back
    migrate(stack, f"{name}:0", "west", "east", "--cut", "barrier")
    more()
    assert writers(stack, name) == {0: "east", 1: "west", 2: "west"}
    # Then every record is there once, at its acknowledged offset, in order
    run.finish(producers, consumers)
    run.assert_sound(name, complete=[f"{name}-confluent-consumer"])
    assert_no_client_has_failed([*producers, *consumers])
