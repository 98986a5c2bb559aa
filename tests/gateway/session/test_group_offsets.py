"""Committed offsets are read where a group is listed: in its bound cluster or, if unknown there, in the one that has
it."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.session.snapshot import Snapshot
from ha_core.model import Group, Topic, UserBindings, View
from ha_core.wire import ApiKey
from tests.gateway.session.coordination import COMMIT, WEST_PORT, commit
from tests.gateway.session.messages import moved
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk, snapshot, topology

OFFSETS, DESCRIBE = ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS
GROUPS = {"__consumer_offsets": {0: 1}}
ORDERS = {"orders": {0: 1}}


def bound_to_west(
    group: Group | None = None, west: Mapping[str, dict[int, int]] = {}, moved: Topic | None = None, **bindings: Any
) -> Snapshot:
    """All users are bound to west; the topic is in east, and with `west` another topic of that name is in west."""
    user = UserBindings(user="anonymous", cluster="west", **bindings)
    groups = {group.name: group} if group else {}
    view = View(1, CLUSTERS, {"anonymous": user}, {moved.name: moved} if moved else {}, groups=groups)
    return snapshot(view, topology(east=GROUPS | ORDERS, west=GROUPS | dict(west)))


def committed(offset: int, error: int = 0) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "committed_offset": offset, "metadata": "", "error_code": error}]
    return {"topics": [{"name": "orders", "partitions": partitions}], "error_code": 0}


def described(state: str) -> dict[str, Any]:
    group = {"group_id": "billing", "group_state": state, "protocol_type": "", "protocol_data": "", "members": []}
    return {"groups": [group | {"error_code": 0}]}


def asking(state: Snapshot, version: int = 7) -> Talk:
    talk = Talk(state, WEST_PORT)
    talk.ask(OFFSETS, version, {"group_id": "billing", "topics": [{"name": "orders", "partition_indexes": [0]}]})
    return talk


def offset_of(talk: Talk) -> int:
    (answer,) = talk.answers()
    return int(answer["topics"][0]["partitions"][0]["committed_offset"])


@pytest.mark.parametrize("version", [1, 7])
def test_offsets_of_a_group_that_only_another_cluster_knows_are_read_there(version: int) -> None:
    talk = asking(bound_to_west(), version)
    talk.broker_answers(WEST, committed(-1))
    (second,) = talk.asked(WEST)
    assert second.api_key == DESCRIBE
    talk.answer(WEST, second, described("Dead"))
    talk.broker_answers(EAST, committed(3))

    assert offset_of(talk) == 3


@pytest.mark.parametrize("names", [[{"name": "orders", "partition_indexes": [0]}], None], ids=["named", "all topics"])
def test_an_offset_for_another_clusters_topic_of_equal_name_is_not_returned(names: Any) -> None:
    # Given a topic in each cluster, and a group that only east knows
    talk = Talk(bound_to_west(west=ORDERS), WEST_PORT)
    # When a reader of west's topic fetches the offsets of that group
    first = talk.forwarded(OFFSETS, 7, {"group_id": "billing", "topics": names}, to=WEST)
    nothing = committed(-1) if names else {"topics": [], "error_code": 0}
    talk.answer(WEST, first, nothing)
    talk.broker_answers(WEST, described("Dead"))
    talk.broker_answers(EAST, committed(1000))
    # Then it starts by its reset policy, and skips no records
    (answer,) = talk.answers()
    assert [partition["committed_offset"] for topic in answer["topics"] for partition in topic["partitions"]] == (
        [-1] if names else []
    )


def test_an_offset_of_a_moved_topic_is_returned_from_any_cluster() -> None:
    talk = asking(bound_to_west(west=ORDERS, moved=moved()))
    talk.broker_answers(WEST, committed(-1))
    talk.broker_answers(WEST, described("Dead"))
    talk.broker_answers(EAST, committed(3))

    assert offset_of(talk) == 3


def test_a_commit_without_a_member_goes_to_the_bound_cluster_though_only_another_one_knows_the_group() -> None:
    # Given a group of users who are bound elsewhere; a consumer with assign() commits as an admin client does
    talk = Talk(bound_to_west(moved=moved()), WEST_PORT)
    talk.ask(COMMIT, 7, commit(member="", generation=-1))
    # Then it never replaces an offset of theirs
    (asked,) = talk.asked(WEST)
    assert asked.api_key == COMMIT
    assert not talk.asked(EAST)


def test_offsets_at_the_groups_own_coordinator_are_the_answer_and_no_other_cluster_is_asked() -> None:
    talk = asking(bound_to_west())
    talk.broker_answers(WEST, committed(7))

    assert offset_of(talk) == 7
    assert not talk.asked(EAST)


def test_a_known_group_without_offsets_has_none_whatever_other_clusters_have() -> None:
    talk = asking(bound_to_west())
    talk.broker_answers(WEST, committed(-1))
    talk.broker_answers(WEST, described("PreparingRebalance"))

    assert offset_of(talk) == -1
    assert not talk.asked(EAST)


@pytest.mark.parametrize(
    "state",
    [bound_to_west(Group(name="billing", cluster="west")), bound_to_west(groups={"billing": "west"})],
    ids=["moved", "bound by itself"],
)
def test_a_group_with_a_cluster_of_its_own_is_read_only_there(state: Snapshot) -> None:
    talk = asking(state)
    talk.broker_answers(WEST, committed(-1))

    assert offset_of(talk) == -1
    assert not talk.asked(WEST)


def test_a_cluster_that_is_lost_meanwhile_does_not_prevent_an_answer() -> None:
    talk = asking(bound_to_west())
    talk.broker_answers(WEST, committed(-1))
    talk.broker_answers(WEST, described("Dead"))
    assert talk.asked(EAST)
    talk.lose(EAST)

    assert offset_of(talk) == -1


def test_an_error_of_the_first_coordinator_is_returned_unasked_elsewhere() -> None:
    talk = asking(bound_to_west())
    talk.broker_answers(WEST, committed(-1, error=14))

    assert offset_of(talk) == -1
    assert not talk.asked(EAST)
