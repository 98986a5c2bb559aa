"""The listener for discovery names the real brokers of one cluster, and only topics that they can serve."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.composed.ask import AnyBroker, Ask
from gateway.composed.coordinator import find_coordinator
from gateway.composed.handlers import Context, Long
from gateway.composed.metadata import metadata
from ha_core.model import Extent, Fence, Group, Topic, UserBindings
from ha_core.wire.codes import ApiKey
from tests.gateway.composed.described_clusters import ask, cluster, everything
from tests.gateway.composed.playbook import Playbook, away, requested, world

METADATA, FIND = ApiKey.METADATA, ApiKey.FIND_COORDINATOR
EAST, WEST = ("east", AnyBroker(), METADATA), ("west", AnyBroker(), METADATA)
NO_LEADER, DENIED, AWAY, GROUP_DENIED = 5, 29, 15, 30
MAPPED = Topic(name="moved", writer="east", partitions={0: (Extent(cluster="east", start=0, base=0, writer_epoch=0),)})


def direct(**more: Any) -> Context:
    return replace(world(**more), direct=True)


def errors(result: dict[str, Any]) -> dict[str, int]:
    return {topic["name"]: topic["error_code"] for topic in result["topics"]}


def test_topics_have_the_ids_and_addresses_of_their_cluster() -> None:
    play = Playbook(metadata(direct(east={"a": {0: 1}}), 9, ask("a")))
    play.asked(EAST).message("east", allow_auto_topic_creation=False).answers({"east": cluster("east", a=2)})

    found = play.encodes(METADATA, 8)
    assert [(b["node_id"], b["host"], b["port"]) for b in found["brokers"]] == [(1, "east", 9092), (2, "east", 9092)]
    assert (found["cluster_id"], found["controller_id"]) == ("real", 2)
    (partition,) = found["topics"][0]["partitions"]
    assert (partition["leader_id"], partition["leader_epoch"]) == (2, -1), "as without a topic id"


def test_a_user_sees_the_bound_cluster() -> None:
    bound = UserBindings(user="alice", cluster="west")
    play = Playbook(metadata(direct(west={"w": {0: 1}}, bindings=(bound,)), 9, ask("w")))
    play.asked(WEST).answers({"west": cluster("west", w=1)})
    assert errors(play.result) == {"w": 0}


def test_topics_with_a_map_or_in_another_cluster_are_refused_and_others_are_served() -> None:
    context = direct(east={"a": {0: 1}, "moved": {0: 1}}, west={"w": {0: 1}}, topics=(MAPPED,))
    play = Playbook(metadata(context, 9, ask("a", "moved", "w")))
    play.asked(EAST).message("east", topics=[{"name": "a", "topic_id": bytes(16)}])
    play.answers({"east": cluster("east", a=1, moved=1)})
    assert errors(play.result) == {"a": 0, "moved": DENIED, "w": DENIED}


def test_lists_of_all_topics_omit_topics_that_are_not_served() -> None:
    context = direct(east={"a": {0: 1}, "moved": {0: 1}}, west={"w": {0: 1}}, topics=(MAPPED,))
    play = Playbook(metadata(context, 9, everything()))
    play.asked(EAST).answers({"east": cluster("east", a=1, moved=1)})
    assert errors(play.result) == {"a": 0}


def test_a_clusters_shared_answer_is_not_modified() -> None:
    said: list[dict[str, Any]] = []

    def answer(one: Ask) -> dict[str, Any]:
        said.append(cluster("east", a=1, moved=1)(one))
        return said[0]

    play = Playbook(metadata(direct(east={"a": {0: 1}}, topics=(MAPPED,)), 9, everything()))
    play.asked(EAST).answers({"east": answer})
    assert [topic["name"] for topic in said[0]["topics"]] == ["a", "moved"]


def test_the_last_known_state_with_leaders_is_returned_while_the_cluster_does_not_answer() -> None:
    play = Playbook(metadata(direct(east={"a": {0: 2, 1: -1}}), 9, ask("a", "b")))
    play.asked(EAST).answers({"east": away("east")})
    found = play.encodes(METADATA, 8)
    assert [b["node_id"] for b in found["brokers"]] == [1, 2]
    assert errors(found) == {"a": 0, "b": NO_LEADER}
    assert [(p["leader_id"], p["error_code"]) for p in found["topics"][0]["partitions"]] == [(2, 0), (-1, NO_LEADER)]


def test_a_long_answer_is_made_off_the_event_loop_whether_topics_are_listed_or_named() -> None:
    for names in (("many",), None):
        request = everything() if names is None else ask(*names)
        play = Playbook(metadata(direct(east={"many": dict.fromkeys(range(500), 1)}), 9, request))
        assert play.step == Long()
        (topic,) = play.gives(None).answers({"east": away("east")}).result["topics"]
        assert len(topic["partitions"]) == 500


def test_a_masked_clusters_brokers_are_not_named() -> None:
    found = Playbook(metadata(direct(east={"a": {0: 1}}, masked="east"), 9, ask("a"))).result
    assert found["brokers"] == []
    assert errors(found) == {"a": NO_LEADER}


def find(context: Context, key: str = "g", kind: int = 0) -> Playbook:
    return Playbook(find_coordinator(context, 2, requested(FIND, 2, key=key, key_type=kind)))


@pytest.mark.parametrize("kind", [0, 1])
def test_a_coordinator_has_its_clusters_own_id(kind: int) -> None:
    play = find(direct(), kind=kind)
    found = {"error_code": 0, "error_message": None, "node_id": 2, "host": "east-2", "port": 9092}
    play.asked(("east", AnyBroker(), FIND)).answers({"east": {"coordinators": [{"key": "g", **found}]}})
    assert play.encodes(FIND, 2).items() >= found.items()


def test_a_group_of_another_cluster_is_refused_and_one_that_is_moved_gets_a_retriable_error() -> None:
    bound = UserBindings(user="alice", cluster="east", groups={"g": "west"})
    assert find(direct(bindings=(bound,))).result["error_code"] == GROUP_DENIED
    fenced = Group(name="g", fence=Fence(operation="op"))
    assert find(direct(groups=(fenced,))).result["error_code"] == AWAY
    assert find(direct(), kind=7).result["error_code"] == 42
    assert find(direct(masked="east")).result["error_code"] == AWAY


def test_the_last_known_coordinator_is_returned_while_its_cluster_does_not_answer() -> None:
    play = find(direct(east={"__consumer_offsets": {0: 2}}))
    play.asked(("east", AnyBroker(), FIND)).answers({"east": away("east")})
    assert (play.result["error_code"], play.result["node_id"]) == (0, 2)
    nobody = find(direct(east={"__consumer_offsets": {0: 2}}), kind=1)
    nobody.answers({"east": away("east")})
    assert nobody.result["error_code"] == AWAY
