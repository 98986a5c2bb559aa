"""Runbooks are walked on a real stack under load: faults are planted, commands run, and their answers compared."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack.harness import Stack
from tests.kit.progress import await_more
from tests.kit.runbooks import Command, Order, Walk, script
from tests.kit.running import Run, bootstrap, create_topic, start_command, switchyard
from tests.kit.stacks import own_stack, revive
from tests.kit.waiting import until
from tests.system.interrupting import looking

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(600),
    pytest.mark.long("docs/runbooks", "ha_core/operations/overview", "ha_core/operations/move", "ha_core/cli/commands"),
]
PAGES = Path(__file__).parents[2] / "docs" / "runbooks"
USERS = {"orders": "orders-app", "bills": "billing-app"}

stack = own_stack(mirror=True, record_facts_s=2)


class Faults:
    """Plants the faults of a page."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def plant(self, order: Order) -> None:
        verb, _, rest = order.text.partition(" ")
        orders: dict[str, Callable[[str], None]] = {
            "abandon": self._abandon,
            "kill": self._stack.kill,
            "pause": self._stack.pause,
            "resume": self._stack.resume,
            "restart": self._stack.restart,
            "stop": self._stack.stop,
        }
        orders[verb](rest)

    def _abandon(self, text: str) -> None:
        """Start a switch, and kill its command as soon as the fence stands.

        :param text: `switch topic:TOPIC from CLUSTER to CLUSTER`.
        """
        _, scope, _, origin, _, target = text.split()
        way = ("--from", origin, "--to", target, "--include-other-users")
        begun: list[subprocess.Popen[str]] = []

        def die() -> None:
            begun[0].kill()

        with looking(self._stack, scope.removeprefix("topic:"), on_fence=die) as onlooker:
            begun.append(start_command(self._stack, "switch", scope, *way, "--reason", "a runbook", "--yes"))
            assert onlooker.fenced.wait(60), begun[0].communicate(timeout=30)
        begun[0].communicate(timeout=30)


@pytest.fixture(scope="module")
def clients(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """A producer and a reader of each topic; orders has a copy in west."""
    runs = {}
    for topic, user in USERS.items():
        create_topic(bootstrap(stack, "east"), topic, 3)
        runs[topic] = Run(stack, tmp_path_factory.mktemp(topic), user=user)
        runs[topic].start("confluent-consumer", f"{topic}-reader", topic, group=f"{topic}-group")
        runs[topic].start("confluent-producer", f"{topic}-producer", topic, rate=50, idempotence="on")
    linked = switchyard(stack, "mirror", "link", "orders", "--from", "east", "--to", "west", "--reason", "a", "--yes")
    assert linked["result"] == "succeeded"
    until(lambda: is_healthy(stack), "the mirror is copied, and nothing waits", 120)
    yield runs
    for run in runs.values():
        run.end()


def is_healthy(stack: Stack) -> bool:
    program = str(Path(sys.executable).with_name("switchyard"))
    command = [program, "status", "--check", "--zookeeper", stack.zookeeper]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


@pytest.fixture
def walk(stack: Stack, tmp_path: Path) -> Walk:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SWITCHYARD_ZOOKEEPER": stack.zookeeper,
        "COLUMNS": "500",
    }
    return Walk(environment, tmp_path)


@pytest.mark.parametrize("page", sorted(path.stem for path in PAGES.glob("*.md")))
def test_a_runbook_leads_back_to_a_healthy_system(stack: Stack, clients: dict[str, Run], walk: Walk, page: str) -> None:
    faults = Faults(stack)
    try:
        for step in script((PAGES / f"{page}.md").read_text("utf-8")):
            if isinstance(step, Command):
                walk.run(step)
            else:
                faults.plant(step)
        until(lambda: is_healthy(stack), f"nothing waits for an operator after {walk.transcript}", 90)
        for run in clients.values():
            await_more(20, run.clients[1])
    finally:
        revive(stack, "zookeeper", "cluster", "gateway", "mirror")
