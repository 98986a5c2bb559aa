"""Stacks and runs for system tests."""

import os
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.harness import Stack
from tests.kit.platform import RunningPlatform
from tests.kit.running import ZOOKEEPER_ROOT, Run, bind, bootstrap, create_topic, switchyard
from tests.kit.stacks import own_stack, revive
from tests.kit.waiting import until
from tests.system.watching import led_from

MakeRun = Callable[..., Run]
MIRRORED_PARTITIONS = 3


stack = own_stack(scope="package")
"""One for all files whose tests leave every part alive; other files have their own."""


@pytest.fixture(scope="module")
def platform(stack: Stack) -> Iterator[RunningPlatform]:
    """The platform of a file's own stack."""
    opened = RunningPlatform(stack)
    yield opened
    opened.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A unique name for the test's topic, group and user."""
    return re.sub(r"[^a-zA-Z0-9.]+", "-", request.node.name.removeprefix("test_")).strip("-")[-100:]


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[MakeRun]:
    """`make_run(stack, cluster=None, user="")`: a Run whose clients end with the test."""
    runs: list[Run] = []

    def make(stack: Stack, cluster: str | None = None, user: str = "") -> Run:
        runs.append(Run(stack, tmp_path / f"run-{len(runs)}", cluster=cluster, user=user))
        return runs[-1]

    yield make
    for run in runs:
        run.end()


def bound_run(
    partitions: int = 3, config: Mapping[str, str] | None = None, *, led: bool = False, east_dies: bool = False
) -> Any:
    """A fixture: a user bound to east, with a topic there, both named after the test.

    :param led: gateways have sent clients of the topic to east by then.
    :param east_dies: the test may kill east, which runs again afterwards.
    """

    @pytest.fixture
    def run(stack: Stack, make_run: MakeRun, name: str) -> Iterator[Run]:
        create_topic(bootstrap(stack, "east"), name, partitions, **(config or {}))
        bind(stack, name, "east")
        if led or east_dies:
            until(lambda: led_from(stack, name) == {"east"}, "clients are sent to east")
        yield make_run(stack, user=name)
        if east_dies:
            revive(stack, "cluster/east")

    return run


run = bound_run()


def mirrored_run(stack: Stack, make_run: MakeRun, name: str) -> Run:
    """`run` with the topic mirrored to west: `run = pytest.fixture(mirrored_run)`."""
    create_topic(bootstrap(stack, "east"), name, MIRRORED_PARTITIONS)
    bind(stack, name, "east")
    switchyard(stack, "mirror", "link", name, "--from", "east", "--to", "west", "--reason", "standby", "--yes")
    return make_run(stack, user=name)


def seeded(variable: str) -> Any:
    """A fixture: random instants. The seed is printed, and taken from the environment to see the same again."""

    @pytest.fixture
    def chance(request: pytest.FixtureRequest) -> random.Random:
        seed = int(os.environ.get(variable) or random.SystemRandom().randrange(1 << 32))
        print(f"{request.node.name}: {variable}={seed}")
        return random.Random(seed)

    return chance


@pytest.fixture(scope="module")
def store(stack: Stack) -> Iterator[Store]:
    """The state of the module's stack."""
    opened = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
    yield opened
    opened.close()
