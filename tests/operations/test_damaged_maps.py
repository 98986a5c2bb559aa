"""One damaged map does not prevent moves of other topics."""

from dataclasses import replace

import pytest

from ha_core.model import Cluster, Extent, Mask, Topic
from ha_core.model.extent import identity
from ha_core.operations.absence.given_up import plan_giving_up
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.proposal.requests import chosen_topics, make_request
from ha_core.plan.facts.clusters import Facts
from ha_core.plan.move.closure import closure
from ha_core.plan.preflight import PreflightCase, preflight
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore


@pytest.fixture
def damaged(store: MemoryStore) -> None:
    """`orders` is written in east; the writer of `broken` is unknown."""
    closed = Extent(cluster="east", start=0, end=100, base=0, writer_epoch=0)
    topics = (
        Topic(name="orders", writer="east", partitions={0: identity("east")}),
        Topic(name="broken", writer="east", partitions={0: (closed,)}),
    )
    store.commit(StateChange(change_id="maps", puts=topics, expected={(Topic, topic.name): None for topic in topics}))


@pytest.mark.usefixtures("damaged")
def test_a_pattern_finds_the_topics_of_a_dead_cluster_beside_a_damaged_map(environment: Environment) -> None:
    assert chosen_topics(environment, environment.store.load(), ["*"], "east") == ("orders",)


@pytest.mark.usefixtures("damaged")
def test_a_damaged_map_refuses_a_move_that_names_its_topic_and_says_which(environment: Environment) -> None:
    view = environment.store.load()
    clusters = {name: Cluster(name=name, bootstrap="h:1") for name in ("east", "west")}
    view = replace(view, clusters=clusters)
    request = make_request(["topic:broken", "topic:orders"], "east", "west", reason="fire")

    (verdict,) = preflight(PreflightCase(view, request, closure(view, {}, request), Facts(), [], ()))

    assert (verdict.level, verdict.code, verdict.about) == ("error", "damaged-map", "topic broken")


@pytest.mark.usefixtures("damaged")
def test_a_cluster_is_not_given_up_for_a_topic_whose_map_is_damaged(
    environment: Environment, store: MemoryStore
) -> None:
    east = Cluster(name="east", bootstrap="h:1", masked=Mask(since="s", reason="fire", by="b"))
    store.commit(StateChange(change_id="east", puts=(east,), expected={(Cluster, "east"): 0}))

    with pytest.raises(RefusedError, match="The maps of broken are damaged"):
        plan_giving_up(environment, "east")
