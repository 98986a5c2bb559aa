"""Gateways, commands and ZooKeeper that are killed or put to sleep at the worst instants of a move under load."""

import json
import random
import re
import signal
import time

import pytest

from ha_core.model import MoveOperation
from ha_core.plan.engine.revision import FINAL
from ha_core.store.zookeeper import connect
from stack.clients.process import ClientProcess, history_of
from stack.harness import Stack
from stack.history.events import Delivered
from tests.kit.progress import await_more, await_records
from tests.kit.running import (
    ZOOKEEPER_ROOT,
    CommandFailedError,
    Run,
    bootstrap,
    switchyard,
)
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.conftest import seeded
from tests.system.interrupting import Command, looking
from tests.system.watching import assert_no_client_has_failed, client_id_at, metrics_of

pytestmark = [pytest.mark.stack, pytest.mark.soak]
RATE = 100
SHORTER_THAN_A_LEASE_S = 1.5
LONGER_THAN_A_SESSION_S = 8.0

stack = own_stack()


chance = seeded("FAULT_SEED")


class Work:
    """An idempotent producer on each gateway, and a group with a member on each."""

    def __init__(self, stack: Stack, run: Run, java: bool = False) -> None:
        self.run = run
        self.topic = run.user
        ids = [client_id_at(stack, run.user, number) for number in (1, 2)]
        self.producers = [self._producer("confluent-producer", number, ids[number - 1]) for number in (1, 2)]
        if java:
            self.producers.append(self._producer("java-producer", 1, ids[0]))
        self.consumers = [
            run.start("confluent-consumer", f"r{number}", self.topic, group=self.topic, client_id=ids[number - 1])
            for number in (1, 2)
        ]
        await_records(30, *self.producers, *self.consumers)  # both consumers: the group is at rest

    def _producer(self, kind: str, gateway: int, client_id: str) -> ClientProcess:
        options = {"rate": RATE, "idempotence": "on", "client_id": client_id}
        return self.run.start(kind, f"w{gateway}-{kind.removesuffix('-producer')}", self.topic, **options)

    def delivered(self) -> int:
        return sum(consumer.count("delivered") for consumer in self.consumers)

    def goes_on(self) -> None:
        """All clients are served again."""
        before = self.delivered()
        await_more(50, *self.producers)
        until(lambda: self.delivered() > before + 50, "the group was given more")

    def assert_sound(self, stack: Stack) -> None:
        """The end: no record lost, duplicated, reordered or renumbered; no error shown; no lock or fence left."""
        self.run.finish(self.producers, self.consumers)
        assert self.run.assert_sound(self.topic, complete=[self.topic]).acknowledged > 0
        assert_no_client_has_failed(self.run.clients)
        assert_nothing_stands(stack, self.topic)


def assert_nothing_stands(stack: Stack, user: str) -> None:
    """No fence, no lock, no unfinished operation."""
    store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
    try:
        view = store.load()
        assert {topic.name for topic in view.topics.values() if topic.fence} == set()
        assert {group.name for group in view.groups.values() if group.fence} == set()
        assert store.locks() == []
        mine = [
            operation
            for operation in store.operations(50)
            if isinstance(operation, MoveOperation) and user in operation.request.scope.users
        ]
        assert {operation.state for operation in mine} <= FINAL
    finally:
        store.close()


def repeated(stack: Stack, arguments: tuple[str, ...]) -> str:
    """Repeat a command until it is not refused any more because of an unfinished operation; returns its result."""
    result = "refused"

    def is_settled() -> bool:
        nonlocal result
        try:
            result = str(switchyard(stack, *arguments)["result"])
        except CommandFailedError as error:
            result = str(error.document.get("result"))
            if result == "refused" and "switchyard resume" not in json.dumps(error.document) + error.said:
                raise
        return result != "refused"

    until(is_settled, f"{' '.join(arguments)} is not refused any more")
    return result


def refusals(stack: Stack, gateway: int, cause: str) -> float:
    """Number of requests that a gateway has refused for that cause."""
    counter = re.findall(rf'refusals_total{{cause="{cause}"}} (\S+)', metrics_of(stack, gateway))
    return sum(float(count) for count in counter)


def ends(stack: Stack, cluster: str, topic: str) -> dict[int, int]:
    """Log ends, from the cluster itself."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap(stack, cluster), "group.id": "ends", "log_level": 3})
    try:
        parts = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1] for p in parts}
    finally:
        consumer.close()


def test_a_gateway_killed_at_any_instant_of_a_switch_loses_nothing(run: Run, name: str, chance: random.Random) -> None:
    # Given clients at work
    work = Work(run.stack, run, java=True)

    for origin, target, number in (("east", "west", chance.choice((1, 2))), ("west", "east", chance.choice((1, 2)))):
        # When they are moved there and back, and a gateway is killed at a random instant of each move
        command = Command(run.stack, name, origin, target)
        command.operation()
        delay_s = chance.uniform(0, 0.4)
        with run.fault(f"gateway/{number} killed"):
            time.sleep(delay_s)
            run.stack.kill(f"gateway/{number}")
            result = command.result()
            print(f"gateway/{number} killed {delay_s:.3f} s after the move began: {result}")
            work.goes_on()
            if result != "succeeded":
                assert result == "undone"
                run.switch(origin, target)
            run.stack.restart(f"gateway/{number}")
        work.goes_on()
    # Then they have lost nothing
    work.assert_sound(run.stack)
    assert {extent.target for extent in run.cuts([name])} == {"east", "west"}


@pytest.mark.parametrize("instant", ["fence", "cut"])
def test_a_killed_switch_command_is_ended_by_the_gateways_and_can_be_repeated(
    stack: Stack, run: Run, name: str, instant: str
) -> None:
    # Given clients at work
    work = Work(stack, run)

    command: list[Command] = []

    def kill() -> None:
        command[0].signal(signal.SIGKILL)

    with looking(stack, name, **{f"on_{instant}": kill}) as onlooker:
        # When the command of their move is killed as soon as the fence stands, or the cut is published
        command.append(Command(stack, name, "east", "west"))
        assert (onlooker.fenced if instant == "fence" else onlooker.cut).wait(60)
        assert command[0].result() == "killed"
        # Then the gateways finish the operation
        until(lambda: not onlooker.store.locks(), "the operation was brought to its end")
        (operation,) = [
            operation
            for operation in onlooker.store.operations(50)
            if isinstance(operation, MoveOperation) and name in operation.request.scope.users
        ]
    assert operation.state == ("undone" if instant == "fence" else "succeeded")
    work.goes_on()
    # And it can be done again
    if instant == "fence":
        assert repeated(stack, command[0].arguments) == "succeeded"
    work.goes_on()
    run.switch("west", "east")
    work.goes_on()

    work.assert_sound(stack)


def test_a_switch_command_killed_at_any_instant_can_be_resumed(run: Run, name: str, chance: random.Random) -> None:
    # Given clients at work
    work = Work(run.stack, run)
    # When the command of their move is killed at a random instant, and its operation is resumed
    command = Command(run.stack, name, "east", "west")
    operation = command.operation()
    delay_s = chance.uniform(0, 0.5)
    time.sleep(delay_s)
    command.signal(signal.SIGKILL)
    killed = command.result()
    result = repeated(run.stack, ("resume", operation))
    print(f"killed {delay_s:.3f} s after the move began: {killed}; resumed: {result}")
    # Then it has ended, and clients have lost nothing
    assert result in {"succeeded", "undone"}
    if result == "undone":
        assert_nothing_stands(run.stack, name)
        run.switch("east", "west")
    work.goes_on()

    work.assert_sound(run.stack)
    assert {cut.target for cut in run.cuts([name])} == {"west"}


def test_a_gateway_paused_past_its_session_writes_nothing_to_the_origin_when_it_wakes(run: Run, name: str) -> None:
    # Given clients at work
    work = Work(run.stack, run, java=True)
    refused_before = refusals(run.stack, 1, "lease")

    with run.fault("gateway/1 asleep"):
        # When a gateway is stopped while they are moved, and for longer than its session
        run.stack.pause("gateway/1")
        assert run.switch("east", "west", drain_timeout="30")["result"] == "succeeded"
        at_the_cut = ends(run.stack, "east", name)
        run.stack.resume("gateway/1")
        work.goes_on()
    # Then it has refused its requests, and written nothing
    assert refusals(run.stack, 1, "lease") > refused_before
    assert ends(run.stack, "east", name) == at_the_cut
    work.assert_sound(run.stack)
    assert ends(run.stack, "east", name) == at_the_cut


def test_a_gateway_paused_while_the_cut_is_published_follows_it_when_it_wakes(run: Run, name: str) -> None:
    # Given clients at work
    work = Work(run.stack, run)
    late = 0

    for number, (origin, target) in enumerate((("east", "west"), ("west", "east")) * 3):
        gateway = number % 2 + 1
        # When they are moved, and a gateway is stopped while the cut is published
        late += _asleep_at_the_cut(run.stack, run, work, (origin, target), gateway)
        work.goes_on()
        if late == 2:
            break
    # Then it has followed after its resume, and clients have lost nothing
    assert late == 2, "no gateway was ever at the revision of the fence while the cut was published"
    work.assert_sound(run.stack)


def _asleep_at_the_cut(stack: Stack, run: Run, work: Work, route: tuple[str, str], gateway: int) -> bool:
    """One move; the command is held under its fence until every gateway has drained and one is stopped.

    Returns whether that gateway had the older revision when the cut was published (the command may have been faster).
    """
    commands: list[Command] = []
    with looking(stack, work.topic, on_fence=lambda: commands[0].signal(signal.SIGSTOP)) as onlooker:
        commands.append(Command(stack, work.topic, *route))
        assert onlooker.fenced.wait(30)
        with run.fault(f"gateway/{gateway} late"):
            if not onlooker.cut.is_set():
                onlooker.wait_until_drained()
            stack.pause(f"gateway/{gateway}")
            commands[0].signal(signal.SIGCONT)
            assert onlooker.cut.wait(20)
            time.sleep(SHORTER_THAN_A_LEASE_S)
            was_late = onlooker.revision_of(gateway) < onlooker.cut_revision
            stack.resume(f"gateway/{gateway}")
            assert commands[0].result() == "succeeded", commands[0].said
    return was_late


def test_a_switch_during_a_rebalance_does_not_wait_for_the_rebalance(stack: Stack, run: Run, name: str) -> None:
    # Given a group with a member that waits to join
    producer = run.start("confluent-producer", "w", name, rate=RATE, idempotence="on")
    # The other member learns of the rebalance by its heartbeats only: until then the new one waits.
    settings = ("heartbeat.interval.ms=12000",)
    consumers = [run.start("confluent-consumer", "r1", name, group=name, settings=settings)]
    consumers[0].wait_for(30, "delivered")
    consumers.append(run.start("confluent-consumer", "r2", name, group=name))
    until(lambda: group_state(stack, "east", name) == "PREPARING_REBALANCING", "the other one joins")
    # When its user is moved
    document = run.switch("east", "west")
    # Then that succeeds, and the group gets everything
    assert document["result"] == "succeeded"
    await_more(50, producer)
    run.finish([producer], consumers)

    run.assert_sound(name, complete=[name])
    assert_nothing_stands(stack, name)


def group_state(stack: Stack, cluster: str, group: str) -> str:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap(stack, cluster), "log_level": 3})
    return str(admin.describe_consumer_groups([group])[group].result(20).state.name)


def test_without_zookeeper_gateways_refuse_writes_hold_reads_and_recover_by_themselves(
    stack: Stack, run: Run, name: str
) -> None:
    # Given clients at work
    work = Work(stack, run)
    refused_before = [refusals(stack, number, "lease") for number in (1, 2)]

    with run.fault("ZooKeeper asleep"):
        # When ZooKeeper stands still for longer than sessions last
        stack.pause("zookeeper")
        asleep_since = time.monotonic()
        until(
            lambda: all(refusals(stack, number, "lease") > refused_before[number - 1] for number in (1, 2)),
            "both gateways refuse produce",
        )
        direct = run.start("confluent-producer", "direct", name, bootstrap=bootstrap(stack, "east"), count=100, rate=0)
        direct.wait()
        written = [producer.count("acknowledged") for producer in work.producers]
        until(lambda: time.monotonic() > asleep_since + LONGER_THAN_A_SESSION_S, "sessions are over")
        # Then no record was written through gateways, and none read across a possible cut
        assert [producer.count("acknowledged") for producer in work.producers] == written
        assert given_of(work.consumers, "direct-") == 0
        # And everything resumes when ZooKeeper does
        stack.resume("zookeeper")
        until(lambda: given_of(work.consumers, "direct-") == 100, "what was written past the gateways is read")
        work.goes_on()

    run.switch("east", "west")
    work.goes_on()
    work.assert_sound(stack)


def given_of(consumers: list[ClientProcess], prefix: str) -> int:
    """Number of different records of a producer that consumers got."""
    events = (event for known in history_of(consumers).clients.values() for event in known)
    return len({event.value for event in events if isinstance(event, Delivered) and event.value.startswith(prefix)})
