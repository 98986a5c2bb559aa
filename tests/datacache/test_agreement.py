"""The commit time that all go to, the nodes that are waited for, and the node that writes it."""

from ha_core.datacache.core.agreement import Agreement, CacheMember
from ha_core.datacache.core.uncommitted import Interval

HOLD_S = 10.0


def member(node: str, through_us: int | None, from_us: int = 0, created: int = 0, main_us: int = 0) -> CacheMember:
    """Created in the order of their names, unless said otherwise."""
    holds = None if through_us is None else Interval(from_us, through_us)
    return CacheMember(node, created or ord(node[-1]), holds, main_us)


def test_the_commit_time_is_the_smallest_time_up_to_which_all_have_read() -> None:
    judgement = Agreement(HOLD_S).judge([member("a", 7), member("b", 5), member("c", 9)], 3, 0.0)

    assert (judgement.commit_us, judgement.holding_up) == (5, ("a", "b"))


def test_nothing_is_committed_again_or_further_back() -> None:
    agreement = Agreement(HOLD_S)

    assert agreement.judge([member("a", 5), member("b", 5)], 5, 0.0).commit_us is None
    assert agreement.judge([member("a", 4)], 5, 0.0).commit_us is None


def test_a_commit_time_that_was_deleted_by_hand_is_written_again_and_not_below_a_served_or_seen_one() -> None:
    agreement = Agreement(HOLD_S)
    agreement.judge([member("a", 6)], 6, 0.0)

    assert agreement.judge([member("a", 6)], None, 1.0).commit_us == 6
    assert agreement.judge([member("a", 6), member("b", 8, main_us=8)], None, 1.0).commit_us == 8
    assert agreement.judge([member("a", 5)], None, 1.0).commit_us is None


def test_the_leader_is_the_first_by_order_of_creation_whatever_the_order_of_the_list() -> None:
    late, early = member("a", 5, created=9), member("z", 5, created=2)

    for listed in ([late, early], [early, late]):
        assert Agreement(HOLD_S).judge(listed, 1, 0.0).leader == "z"


def test_a_node_that_has_read_nothing_neither_holds_up_others_nor_leads() -> None:
    judgement = Agreement(HOLD_S).judge([member("a", None), member("b", 5)], 1, 0.0)

    assert (judgement.commit_us, judgement.leader, judgement.left_out) == (5, "b", ("a",))


def test_a_node_that_cannot_read_is_waited_for_until_hold_s_and_then_left_out() -> None:
    agreement = Agreement(HOLD_S)
    members = [member("a", 5), member("b", 9)]

    assert agreement.judge(members, 5, 0.0).holding_up == ("a",)
    assert agreement.judge(members, 5, 9.9).commit_us is None
    late = agreement.judge(members, 5, 10.0)

    assert (late.commit_us, late.leader, late.left_out) == (9, "b", ("a",))


def test_a_node_that_only_creeps_is_not_waited_for_any_longer() -> None:
    agreement = Agreement(HOLD_S)
    agreement.judge([member("a", 5), member("b", 9)], 4, 0.0)
    agreement.judge([member("a", 6), member("b", 20)], 4, 6.0)

    assert agreement.judge([member("a", 7), member("b", 20)], 4, 10.0).commit_us == 20


def test_a_node_that_has_caught_up_is_waited_for_again() -> None:
    agreement = Agreement(HOLD_S)
    agreement.judge([member("a", 5), member("b", 9)], 4, 0.0)
    agreement.judge([member("a", 9), member("b", 20)], 4, 9.0)

    judgement = agreement.judge([member("a", 9), member("b", 20)], 4, 15.0)

    assert (judgement.commit_us, judgement.holding_up) == (9, ("a",))


def test_a_node_that_was_left_out_counts_again_once_it_has_caught_up() -> None:
    agreement = Agreement(HOLD_S)
    agreement.judge([member("a", 5), member("b", 9)], 5, 0.0)
    agreement.judge([member("a", 5), member("b", 9)], 5, 20.0)

    judgement = agreement.judge([member("a", 9), member("b", 9)], 9, 21.0)

    assert (judgement.left_out, judgement.leader) == ((), "a")


def test_a_time_whose_content_one_node_cannot_tell_is_not_committed() -> None:
    # B has read after a change of which A has seen the version before, and does not know that one.
    assert Agreement(HOLD_S).judge([member("a", 5), member("b", 9, from_us=8)], 1, 0.0).commit_us is None


def test_the_deputy_writes_when_the_leader_could_have_for_hold_s() -> None:
    agreement = Agreement(HOLD_S)
    members = [member("a", 9), member("b", 9), member("c", 9)]
    judgement = agreement.judge(members, 5, 0.0)

    assert [agreement.writes(judgement, node, 0.0) for node in "abc"] == [True, False, False]
    judgement = agreement.judge(members, 5, 10.0)
    assert [agreement.writes(judgement, node, 10.0) for node in "abc"] == [True, True, False]
    assert [agreement.writes(judgement, node, 20.0) for node in "abcd"] == [True, True, True, False]


def test_a_deputy_waits_again_after_each_commit() -> None:
    agreement = Agreement(HOLD_S)
    agreement.judge([member("a", 9), member("b", 9)], 5, 0.0)
    judgement = agreement.judge([member("a", 12), member("b", 12)], 9, 10.0)

    assert not agreement.writes(judgement, "b", 10.0)


def test_the_time_of_the_next_change_of_a_judgement_is_known() -> None:
    agreement = Agreement(HOLD_S)
    agreement.judge([member("a", 5)], 5, 0.0)
    assert agreement.next_s(0.0) is None

    agreement.judge([member("a", 5), member("b", 9)], 5, 3.0)

    assert agreement.next_s(4.0) == 9.0
