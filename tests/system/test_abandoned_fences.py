"""Executors that die or hang under their fence: clients go on within seconds."""

import signal
import time

import pytest

from stack.harness import Stack
from tests.kit.progress import await_more
from tests.kit.running import Run
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.interrupting import Command, Onlooker, looking
from tests.system.watching import assert_no_client_has_failed

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/engine/orphan_recovery.py", "ha_core/operations/running/engine.py"),
]
AT_MOST_S = 5.0
SLOW_MACHINE_S = 2.0

stack = own_stack()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "standing still"])
def test_clients_continue_within_seconds_when_a_command_dies_under_its_fence(
    stack: Stack, run: Run, name: str, number: signal.Signals
) -> None:
    # Given a producer and a reader, and a stopped gateway, so that a move waits under its fence
    reader = run.start("confluent-consumer", "r1", name, group=name)
    producer = run.start("confluent-producer", "w1", name, rate=50, idempotence="on")
    producer.wait_for(50, "acknowledged")
    command: list[Command] = []
    gone_at: list[float] = []

    def end_it() -> None:
        command[0].signal(number)
        gone_at.append(time.monotonic())

    with looking(stack, name, on_fence=end_it) as onlooker:
        # When the command dies as soon as the topic is fenced
        command.append(Command(stack, name, "east", "west"))
        assert onlooker.fenced.wait(60)
        until(lambda: not fenced(onlooker, name), "the fence was lifted", 60)
        lifted_s = time.monotonic() - gone_at[0]
    # Then the gateways' orphan recovery lifts the fence
    print(f"{number.name}: the fence stood for {lifted_s:.1f} s after the command was gone")
    assert lifted_s < AT_MOST_S + SLOW_MACHINE_S
    await_more(50, producer)
    # And the resumed command changes nothing
    command[0].signal(signal.SIGCONT if number == signal.SIGSTOP else signal.SIGKILL)
    command[0].process.communicate(timeout=60)
    await_more(50, producer)
    run.finish([producer], [reader])
    run.assert_sound(name, complete=[name])
    assert_no_client_has_failed([producer])


def fenced(onlooker: Onlooker, name: str) -> bool:
    topic = onlooker.store.load().topics.get(name)
    return topic is not None and topic.fence is not None
