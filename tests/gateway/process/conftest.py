"""Fixtures of the process's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.process.platform_world import PASSWORD, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.platform.close()


@pytest.fixture
def peopled(world: World) -> World:
    """A platform with two users, one of them a super user."""
    world.platform.put_user("ops", PASSWORD, super_user=True)
    world.platform.put_user("alice", PASSWORD)
    world.platform.begin()
    return world
