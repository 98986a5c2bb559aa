"""A cluster that takes connections and answers nothing is waited for once by who does without it, and no longer."""

import socket
import time
from collections.abc import Iterator

import pytest

from ha_core.kafka.admin import Admin
from ha_core.model import Cluster, MoveSet, View
from ha_core.operations.clusters.collect_facts import JUST_NOW_S, gather
from ha_core.operations.engine.cluster_admins import ask_dying
from ha_core.operations.engine.environment import Environment

PATIENCE_S = 0.4


@pytest.fixture
def hanging() -> Iterator[Cluster]:
    """Its kernel takes connections and bytes, as for a process that is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Cluster(name="hangs", bootstrap=f"127.0.0.1:{listening.getsockname()[1]}")


def look_s(environment: Environment, cluster: Cluster, dead: str | None) -> float:
    begun = time.monotonic()
    view = View(1, {cluster.name: cluster})
    facts = gather(environment, view, [cluster.name], MoveSet(), PATIENCE_S, dead)
    assert not facts.clusters[cluster.name].reachable
    return time.monotonic() - begun


def test_a_forced_move_that_is_planned_again_at_once_does_not_wait_for_its_origin_again(
    environment: Environment, hanging: Cluster
) -> None:
    # Given a plan that has waited for a cluster that hangs
    assert look_s(environment, hanging, dead="hangs") >= PATIENCE_S
    # When it is made again at once, by who does without the cluster
    assert look_s(environment, hanging, dead="hangs") < PATIENCE_S / 2
    # Then only that one trusts in it, and a little later it is looked at again: it may be back
    assert look_s(environment, hanging, dead=None) >= PATIENCE_S
    later = time.monotonic() + JUST_NOW_S
    environment.monotonic = lambda: later
    assert look_s(environment, hanging, dead="hangs") >= PATIENCE_S


def test_a_dying_origin_that_hangs_is_asked_for_its_last_words_once(environment: Environment, hanging: Cluster) -> None:
    asked = 0

    def ask(origin: Admin) -> object:
        nonlocal asked
        asked += 1
        return origin.topics(["orders"], timeout_s=PATIENCE_S)

    origin = environment.admin(hanging)
    assert ask_dying(environment, origin, ask) is None
    assert ask_dying(environment, origin, ask) is None
    assert asked == 1
