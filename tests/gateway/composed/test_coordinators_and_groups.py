"""FIND_COORDINATOR and the administration of groups: bindings decide, fences hold."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.composed.ask import AnyBroker, Ask, ClusterUnavailableError, Coordinator, OneBroker
from gateway.composed.coordinator import find_coordinator
from gateway.composed.coordinator_release import UNLISTED
from gateway.composed.groups_admin import (
    MAX_ALONE,
    delete_groups,
    describe_consumer_groups,
    describe_groups,
    list_groups,
    offset_delete,
)
from gateway.composed.handlers import BrokerKey, Context
from ha_core.model import Fence, Group, UserBindings
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.playbook import Playbook, away, requested, world

FIND = ApiKey.FIND_COORDINATOR
NOT_AVAILABLE, NOT_COORDINATOR = 15, 16
BOUND = UserBindings(user="alice", cluster="west", groups={"special": "east"})
FENCED = Group(name="g", fence=Fence(operation="op-7"))


def find(context: Context, key: str = "g", kind: int = 0) -> Playbook:
    return Playbook(find_coordinator(context, 3, requested(FIND, 3, key_type=kind, key=key)))


def coordinator(broker: int) -> Any:
    def answer(ask: Ask) -> dict[str, Any]:
        found = {"node_id": broker, "host": "real", "port": 9092, "error_message": None}
        return found | {"coordinators": [found | {"key": key} for key in ask.message["coordinator_keys"]]}

    return answer


@pytest.mark.parametrize(("group", "cluster", "node"), [("g", "west", 22), ("special", "east", 12)])
def test_a_groups_coordinator_is_in_its_bound_cluster(group: str, cluster: str, node: int) -> None:
    play = find(world(bindings=(BOUND,)), group)

    play.asked((cluster, AnyBroker(), FIND)).answers({cluster: coordinator(2)}).wants((cluster, 2))

    answer = play.encodes(FIND, 3)
    assert (answer["error_code"], answer["node_id"], answer["host"], answer["port"]) == (0, node, "gw", 20_000 + node)


def test_a_transactional_id_belongs_to_its_users_cluster() -> None:
    play = find(world(bindings=(BOUND,)), "special", kind=1)

    play.asked(("west", AnyBroker(), FIND)).message("west", key="special", key_type=1)


def test_a_transactional_producer_gets_an_unlisted_node_once_after_a_gateway_has_gone() -> None:
    # Given
    context = world()
    context.coordinator_release.gone(context.now)
    # When
    first, second = (find(context, "t", kind=1).answers({"east": coordinator(2)}).wants(("east", 2)) for _ in range(2))
    # Then
    coordinators = [
        (play.result["error_code"], play.result["node_id"], play.result["port"]) for play in (first, second)
    ]
    assert coordinators == [(0, UNLISTED + 12, 20_012), (0, 12, 20_012)]


def test_groups_get_their_coordinator_at_once_after_a_gateway_has_gone() -> None:
    context = world()
    context.coordinator_release.gone(context.now)
    play = find(context).answers({"east": coordinator(2)}).wants(("east", 2))
    assert (play.result["error_code"], play.result["node_id"]) == (0, 12)


def test_a_group_under_a_fence_has_no_coordinator_and_the_error_names_the_operation() -> None:
    answer = find(world(groups=(FENCED,))).encodes(FIND, 3)

    assert (answer["error_code"], answer["node_id"]) == (NOT_AVAILABLE, -1)
    assert answer["error_message"] == "group g is being moved by operation op-7"


def test_the_coordinator_in_an_unreachable_cluster_is_not_available() -> None:
    play = find(world())

    play.answers({"east": away("east")})

    assert play.result["error_code"] == NOT_AVAILABLE
    assert play.result["error_message"] == "cluster east is not available: connection refused"


def test_an_error_of_the_cluster_reaches_the_client() -> None:
    play = find(world())

    play.answers({"east": {"coordinators": [{"key": "g", "node_id": -1, "error_code": 30, "error_message": "no"}]}})

    assert (play.result["error_code"], play.result["error_message"]) == (30, "no")


def test_coordinators_of_unknown_kinds_are_refused() -> None:
    assert find(world(), kind=2).result["error_code"] == 42


def described(ask: Ask) -> dict[str, Any]:
    return {"groups": [{"group_id": g, "group_state": f"Stable in {ask.cluster}"} for g in ask.message["groups"]]}


def test_groups_are_described_by_their_own_coordinators() -> None:
    request = requested(ApiKey.DESCRIBE_GROUPS, 5, groups=["g", "special", "lost"])
    play = Playbook(describe_groups(world(bindings=(BOUND,)), 5, request))

    play.asked(
        ("west", Coordinator("group", "g"), ApiKey.DESCRIBE_GROUPS),
        ("east", Coordinator("group", "special"), ApiKey.DESCRIBE_GROUPS),
        ("west", Coordinator("group", "lost"), ApiKey.DESCRIBE_GROUPS),
    )

    def west(ask: Ask) -> dict[str, Any] | ClusterUnavailableError:
        return away("west") if ask.message["groups"] == ["lost"] else described(ask)

    play.answers({"east": described, "west": west})
    groups = play.encodes(ApiKey.DESCRIBE_GROUPS, 5)["groups"]
    assert [(g["group_id"], g["error_code"], g["group_state"]) for g in groups] == [
        ("g", 0, "Stable in west"),
        ("special", 0, "Stable in east"),
        ("lost", NOT_AVAILABLE, ""),
    ]


COORDINATORS = {"__consumer_offsets": dict.fromkeys(range(0, 50, 2), 1) | dict.fromkeys(range(1, 50, 2), 2)}


def test_many_groups_are_described_by_one_question_per_coordinator() -> None:
    # Given the leaders of the partitions of __consumer_offsets, and 340 groups
    names = [f"group-{number}" for number in range(340)]
    request = requested(ApiKey.DESCRIBE_GROUPS, 5, groups=names)
    play = Playbook(describe_groups(world(east=COORDINATORS), 5, request))
    # Then two brokers are asked once each
    play.asked(*(("east", OneBroker(broker), ApiKey.DESCRIBE_GROUPS) for broker in (1, 2)))
    # And a group that has just moved to another coordinator is asked for there

    def answer(ask: Ask) -> dict[str, Any]:
        found = described(ask)
        for group in found["groups"]:
            if group["group_id"] == "group-7" and isinstance(ask.target, OneBroker):
                group.update(error_code=NOT_COORDINATOR, group_state="")
        return found

    play.answers({"east": answer})
    play.asked(("east", Coordinator("group", "group-7"), ApiKey.DESCRIBE_GROUPS)).answers({"east": answer})
    groups = play.encodes(ApiKey.DESCRIBE_GROUPS, 5)["groups"]
    assert [(g["group_id"], g["error_code"], g["group_state"]) for g in groups] == [
        (name, 0, "Stable in east") for name in names
    ]


def test_many_groups_with_unknown_coordinators_are_asked_for_in_bounded_portions() -> None:
    # Given 340 groups, and unknown leaders of __consumer_offsets
    names = [f"group-{number}" for number in range(340)]
    left = names
    for _ in range(6):
        # When they are described
        play = Playbook(describe_groups(world(), 5, requested(ApiKey.DESCRIBE_GROUPS, 5, groups=left)))
        # Then a bounded number of questions is asked, and the other groups get a retriable error
        assert len(play.asks) == min(len(left), MAX_ALONE)
        play.answers({"east": described})
        groups = play.encodes(ApiKey.DESCRIBE_GROUPS, 5)["groups"]
        assert [g["group_id"] for g in groups] == left
        assert [g["error_code"] for g in groups] == [0] * len(left[:MAX_ALONE]) + [NOT_AVAILABLE] * len(
            left[MAX_ALONE:]
        )
        # And each group gets a result
        left = left[MAX_ALONE:]
    assert not left


def test_a_kip_848_group_of_direct_clients_is_described_without_topic_ids() -> None:
    # Given a KIP-848 group in the west, unknown in the east, where the asking user is bound
    context = world(east=COORDINATORS, west=COORDINATORS)
    key = ApiKey.CONSUMER_GROUP_DESCRIBE
    play = Playbook(describe_consumer_groups(context, 1, requested(key, 1, group_ids=["g", "g"])))
    topics = {"topic_partitions": [{"topic_id": bytes(range(16)), "topic_name": "t", "partitions": [0, 2]}]}
    member = {"member_id": "m", "assignment": topics, "target_assignment": topics}
    # When it is described
    assert [(ask.cluster, ask.message["group_ids"]) for ask in play.asks] == [("east", ["g"])]
    play.answers({"east": {"groups": [{"group_id": "g", "error_code": ErrorCode.UNSUPPORTED_VERSION}]}})
    play.answers({"west": {"groups": [{"group_id": "g", "group_state": "Stable", "members": [member]}]}})
    # Then it has topic names but no ids, which METADATA does not return either
    group, again = play.encodes(key, 1)["groups"]
    assert group["group_state"] == "Stable"
    assert again == group
    for name in ("assignment", "target_assignment"):
        (one,) = group["members"][0][name]["topic_partitions"]
        assert (one["topic_id"], one["topic_name"], one["partitions"]) == (bytes(16), "t", [0, 2])


def test_a_group_is_described_from_another_cluster_if_its_bound_cluster_lacks_it() -> None:
    # Given a group that is listed, because the west has it, for a user who is bound to the east
    def states(**known: str) -> Any:
        def answer(ask: Ask) -> dict[str, Any]:
            return {"groups": [{"group_id": g, "group_state": known.get(g, "Dead")} for g in ask.message["groups"]]}

        return answer

    request = requested(ApiKey.DESCRIBE_GROUPS, 5, groups=["here", "there", "nowhere"])
    play = Playbook(describe_groups(world(east=COORDINATORS, west=COORDINATORS), 5, request))
    clusters = {"east": states(here="Stable"), "west": states(here="Empty", there="Stable")}
    # When it is described with others
    while play.waits:
        play.answers(clusters)
    # Then the west's is shown, and for a group in both clusters the bound cluster's
    groups = play.encodes(ApiKey.DESCRIBE_GROUPS, 5)["groups"]
    assert [(g["group_id"], g["group_state"]) for g in groups] == [
        ("here", "Stable"),
        ("there", "Stable"),
        ("nowhere", "Dead"),
    ]


def test_an_unreachable_coordinator_costs_one_question_for_all_its_groups() -> None:
    names = [f"group-{number}" for number in range(340)]
    play = Playbook(delete_groups(world(east=COORDINATORS), 2, requested(ApiKey.DELETE_GROUPS, 2, groups_names=names)))
    play.answers({"east": away("east")})
    assert [(r["group_id"], r["error_code"]) for r in play.result["results"]] == [(n, NOT_AVAILABLE) for n in names]


def test_a_group_under_a_fence_can_be_described_but_not_deleted() -> None:
    context = world(groups=(FENCED,))
    describing = Playbook(describe_groups(context, 5, requested(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])))
    deleting = Playbook(delete_groups(context, 2, requested(ApiKey.DELETE_GROUPS, 2, groups_names=["g", "h"])))

    assert len(describing.asks) == 1
    assert [a.message["groups_names"] for a in deleting.asks] == [["h"]]
    deleting.answers({"east": {"results": [{"group_id": "h"}]}})
    assert [(r["group_id"], r["error_code"]) for r in deleting.result["results"]] == [("g", NOT_AVAILABLE), ("h", 0)]


def test_offsets_are_deleted_in_the_groups_cluster() -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    request = requested(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    play = Playbook(offset_delete(world(bindings=(BOUND,)), 0, request))
    gone = Playbook(offset_delete(world(bindings=(BOUND,)), 0, request))

    play.asked(("west", Coordinator("group", "g"), ApiKey.OFFSET_DELETE)).message("west", topics=topics)
    play.answers({"west": {"topics": topics}})
    gone.answers({"west": away("west")})

    assert play.encodes(ApiKey.OFFSET_DELETE, 0)["error_code"] == 0
    assert gone.encodes(ApiKey.OFFSET_DELETE, 0)["error_code"] == NOT_AVAILABLE


def has(errors: Mapping[str, int], partitions: Mapping[str, list[int]] | None = None) -> Any:
    """A cluster's coordinators. `errors`: group → error code of the answer."""

    def answer(ask: Ask) -> dict[str, Any]:
        unknown = int(ErrorCode.GROUP_ID_NOT_FOUND)
        if ask.api_key == ApiKey.DELETE_GROUPS:
            names = ask.message["groups_names"]
            return {"results": [{"group_id": name, "error_code": errors.get(name, unknown)} for name in names]}
        code = errors.get(ask.message["group_id"], unknown)
        found = (partitions or {}).get(ask.cluster, [0, 0])
        rows = [{"partition_index": p, "error_code": code} for p, code in enumerate(found)]
        return {"error_code": code, "topics": [] if code else [{"name": "t", "partitions": rows}]}

    return answer


def told(context: Context, names: list[str], clusters: Mapping[str, Any]) -> dict[str, int]:
    play = Playbook(delete_groups(context, 2, requested(ApiKey.DELETE_GROUPS, 2, groups_names=names)))
    play.answers_all(clusters)
    return {result["group_id"]: result["error_code"] for result in play.encodes(ApiKey.DELETE_GROUPS, 2)["results"]}


NON_EMPTY, NOT_FOUND = int(ErrorCode.NON_EMPTY_GROUP), int(ErrorCode.GROUP_ID_NOT_FOUND)


def test_groups_are_deleted_where_listings_show_them() -> None:
    # Given a user bound to west who deletes groups of west, of east, of both, and of no cluster
    context = world(east=COORDINATORS, west=COORDINATORS, bindings=(BOUND,))
    asked: list[tuple[str, str]] = []

    def seen(cluster: Any) -> Any:
        def answer(ask: Ask) -> dict[str, Any]:
            asked.extend((ask.cluster, name) for name in ask.message["groups_names"])
            reply: dict[str, Any] = cluster(ask)
            return reply

        return answer

    clusters = {"east": seen(has({"old": 0, "both": 0, "used": NON_EMPTY})), "west": seen(has({"own": 0, "both": 0}))}
    codes = told(context, ["own", "old", "both", "used", "none"], clusters)
    # Then east deletes its own; a group in both is deleted in west alone, since listings show that one
    assert codes == {"own": 0, "old": 0, "both": 0, "used": NON_EMPTY, "none": NOT_FOUND}
    assert sorted(name for cluster, name in asked if cluster == "east") == ["none", "old", "used"]


def test_a_group_that_an_unreachable_cluster_may_have_is_not_reported_unknown() -> None:
    down = world(east=COORDINATORS, west=COORDINATORS, bindings=(BOUND,), down="east")
    masked = world(east=COORDINATORS, west=COORDINATORS, bindings=(BOUND,), masked="east")
    up = world(east=COORDINATORS, west=COORDINATORS, bindings=(BOUND,))

    assert told(down, ["old"], {"west": has({})}) == {"old": NOT_AVAILABLE}
    assert told(up, ["old"], {"west": has({}), "east": away("east")}) == {"old": NOT_AVAILABLE}
    assert told(masked, ["old"], {"west": has({})}) == {"old": NOT_FOUND}
    # And no other cluster deletes it while its bound cluster does not answer
    assert told(up, ["old"], {"west": away("west")}) == {"old": NOT_AVAILABLE}


def test_deleting_a_group_of_two_other_clusters_succeeds_when_both_have_deleted_it() -> None:
    unbound = world(east=COORDINATORS, west=COORDINATORS, bindings=(UserBindings(user="alice", cluster="north"),))
    clusters = {"east": has({"g": 0}), "west": has({"g": NON_EMPTY})}

    assert told(unbound, ["g"], {**clusters, "north": away("north")}) == {"g": NOT_AVAILABLE}
    assert told(unbound, ["g"], {**clusters, "north": has({})}) == {"g": NON_EMPTY}
    # When its member has left
    assert told(unbound, ["g"], {"east": has({}), "west": has({"g": 0}), "north": has({})}) == {"g": 0}


@pytest.mark.parametrize(
    ("east", "west", "codes"),
    [
        (0, NOT_FOUND, [0, 0]),
        (NOT_FOUND, 0, [0, 3]),
        (NOT_FOUND, NOT_FOUND, NOT_FOUND),
        (NON_EMPTY, NOT_FOUND, NON_EMPTY),
    ],
)
def test_offsets_are_deleted_where_listings_show_the_group(east: int, west: int, codes: Any) -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]
    request = requested(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    play = Playbook(offset_delete(world(bindings=(BOUND,)), 0, request))
    offsets = {"west": [0, 3]}
    play.answers_all({"east": has({"g": east}), "west": has({"g": west}, offsets)})
    answer = play.encodes(ApiKey.OFFSET_DELETE, 0)
    said = [p["error_code"] for topic in answer["topics"] for p in topic["partitions"]]
    assert (said or answer["error_code"]) == codes


def test_deleting_an_offset_succeeds_when_every_cluster_that_knows_its_topic_has_deleted_it() -> None:
    subscribed, unknown = int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC), 3
    topics = [{"name": "t", "partitions": [{"partition_index": number} for number in range(4)]}]
    request = requested(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    context = world(bindings=(UserBindings(user="alice", cluster="north"),))
    offsets = {"east": [0, unknown, 0, unknown], "west": [0, 0, subscribed, unknown]}
    cluster = has({"g": 0}, offsets)
    play = Playbook(offset_delete(context, 0, request)).answers_all(
        {"east": cluster, "west": cluster, "north": has({})}
    )
    (topic,) = play.encodes(ApiKey.OFFSET_DELETE, 0)["topics"]
    assert [p["error_code"] for p in topic["partitions"]] == [0, 0, subscribed, unknown]


def lists(brokers: Mapping[int, list[str]]) -> Any:
    def answer(ask: Ask) -> dict[str, Any]:
        assert isinstance(ask.target, OneBroker)
        names = brokers.get(ask.target.broker_id, [])
        return {"groups": [{"group_id": name, "group_state": ask.cluster, "group_type": "classic"} for name in names]}

    return answer


CLUSTERS = {"east": lists({1: ["g", "special"], 2: ["old"]}), "west": lists({2: ["g", "special"]})}
LISTING_NODES: tuple[BrokerKey | None, ...] = (None, None, ("east", 1), ("east", 2), ("west", 1), ("west", 2))
"""Nodes that an admin client asks when two gateways run: their own, and those of all brokers."""


def listing(context: Context, version: int = 5, **filters: Any) -> Playbook:
    return Playbook(list_groups(context, version, requested(ApiKey.LIST_GROUPS, version, **filters)))


def test_an_admin_client_that_asks_every_node_sees_each_group_once_in_its_bound_cluster() -> None:
    # Given two gateways, and old copies of `g` in the east and of `special` in the west
    found = []
    for port in LISTING_NODES:
        # When each node is asked
        play = listing(world(bindings=(BOUND,), port=port))
        while play.waits:
            play.answers(CLUSTERS)
        found += [(g["group_id"], g["group_state"]) for g in play.encodes(ApiKey.LIST_GROUPS, 5)["groups"]]
    # Then no group comes twice, and none is missing
    assert sorted(found) == [("g", "west"), ("old", "east"), ("special", "east")]


def test_only_the_broker_is_asked_if_all_its_groups_belong_to_its_cluster() -> None:
    play = listing(world(port=("east", 1)), states_filter=["Stable"], types_filter=["classic"])
    play.asked(("east", OneBroker(1), ApiKey.LIST_GROUPS))
    play.message("east", states_filter=["Stable"], types_filter=["classic"])
    play.answers(CLUSTERS)
    groups = play.encodes(ApiKey.LIST_GROUPS, 5)["groups"]
    assert [(g["group_id"], g["group_type"]) for g in groups] == [("g", "classic"), ("special", "classic")]


def test_an_unreachable_brokers_node_returns_a_retriable_error_and_other_nodes_list_their_groups() -> None:
    failing = listing(world(port=("east", 1)))
    failing.answers({"east": away("east")})
    down = listing(world(down="west", port=("west", 1)))
    other = listing(world(down="west", port=("east", 1), bindings=(BOUND,))).answers(CLUSTERS)

    assert failing.result["error_code"] == down.result["error_code"] == NOT_AVAILABLE
    assert [g["group_id"] for g in other.result["groups"]] == ["g", "special"]
