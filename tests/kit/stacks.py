"""Fixtures of tests on real parts: a stack, and an operator's session in its state."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import pytest

from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from stack.harness import Stack

TWO_CLUSTERS = {"east": "3.9.2", "west": "4.3.1"}
"""Clusters of different major versions."""


def own_stack(
    clusters: Mapping[str, str] = TWO_CLUSTERS,
    *,
    scope: Literal["module", "package"] = "module",
    prepare: Callable[[Stack], None] = lambda _: None,
    **options: Any,
) -> Any:
    """A fixture: a stack for a file whose tests stop parts of it, or need these options of `Stack.up`."""

    @pytest.fixture(scope=scope)
    def stack() -> Iterator[Stack]:
        with Stack.up(clusters, **options) as running:
            prepare(running)
            yield running

    return stack


def operator(session_timeout_s: float = 6.0) -> Any:
    """A fixture: an environment in the state of the fixture `stack`. A killed one ends after this time."""

    @pytest.fixture
    def environment(stack: Stack) -> Iterator[Environment]:
        settings = EnvironmentSettings(stack.zookeeper, session_timeout_s=session_timeout_s)
        with connect(settings, by="test:operator") as opened:
            yield opened

    return environment


def revive(stack: Stack, *parts: str) -> None:
    """Restart those that do not run of the parts whose names begin like this. Processes of a part, as
    `mirror/executor`, come back with it."""
    states = {part["part"]: part["state"] for part in stack.status()}
    for name, state in states.items():
        if name.startswith(parts) and state != "ready" and name.rpartition("/")[0] not in states:
            stack.restart(name)
