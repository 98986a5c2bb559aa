"""Guards of copies, distinguished from other denials."""

import pytest

from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.mirror.copy_guard import (
    foreign,
    guard,
    guards,
    marked,
    others,
    placed,
    sparing,
    unguarded,
    writers_of,
)
from ha_core.plan.mirror.syncing import rules_due, writers

READ, WRITE, ALL = 3, 4, 2


def rule(name: str, operation: int, principal: str = "User:ann", allows: bool = True) -> TopicAcl:
    return TopicAcl("literal", name, principal, "*", operation, allows)


def test_a_copy_is_guarded_when_it_has_the_rule_and_its_marker() -> None:
    marker, denial = guard("orders")
    assert unguarded([*guard("orders"), guard("bills")[0]], ["orders", "bills", "users"]) == ["bills", "users"]
    assert marked([marker]) == {"orders"}
    assert foreign([denial], ["orders"]) == ["orders"]
    assert foreign([marker, denial], ["orders"]) == []


def test_denials_of_operators_are_not_guards() -> None:
    elses = rule("bills", WRITE, "User:*", allows=False)
    assert others([*guards(["orders"]), elses, rule("orders", READ)]) == {elses, rule("orders", READ)}


def test_rights_to_write_come_along_under_a_guard_only_and_never_more_than_the_source_has() -> None:
    source = [rule("orders", WRITE), rule("orders", ALL, "User:bob"), rule("orders", WRITE, "User:eve", allows=False)]
    to_read = {topic_acl for topic_acl in rules_due(source, [], ["orders"]).missing if topic_acl.operation == WRITE}
    guarded = {
        topic_acl for topic_acl in rules_due(source, [], ["orders"], ["orders"]).missing if topic_acl.operation == WRITE
    }
    assert to_read == set()
    assert guarded == {source[0], rule("orders", WRITE, "User:bob"), source[2]}


def test_guarded_rules_that_the_source_has_removed_are_reported_before_a_switch_enables_them() -> None:
    # Given a carried right to write and a carried denial that the source has removed since
    revoked, lifted = rule("orders", WRITE), rule("orders", WRITE, "User:eve", allows=False)
    # Then both are reported, but not without a guard: then rules about writing there are the target's own
    assert rules_due([], [revoked, lifted], ["orders"], ["orders"]).alone == {revoked, lifted}
    assert rules_due([], [revoked, lifted], ["orders"]).alone == set()


def test_principals_with_a_right_to_write_are_named() -> None:
    everywhere = TopicAcl("prefixed", "ord", "User:bob", "*", ALL, True)
    rules = [rule("orders", WRITE), rule("bills", WRITE, "User:eve"), rule("orders", READ, "User:carl"), everywhere]
    assert writers(rules, ["orders"]) == {"User:ann", "User:bob"}


def test_guards_against_one_user_and_against_all_are_recognised_by_their_markers() -> None:
    # Given guards of both kinds, one of them incomplete, and a denial that is not a guard
    by_name, everybody, half = guard("orders", "User:CN=ann,O=a/b"), guard("bills"), guard("users", "User:bob")
    elses = rule("orders", WRITE, "User:eve", allows=False)
    rules = [*by_name, *everybody, half.marker, elses]
    # Then all of them are found, and nothing else
    assert placed(rules) == sorted([by_name, everybody, half])
    assert placed(rules, ["orders"]) == [by_name]
    assert marked(rules) == {"orders", "bills", "users"}
    assert others(rules) == {elses}


def test_all_writers_but_an_ordinary_copier_are_denied_by_name() -> None:
    prefixed = TopicAcl("prefixed", "ord", "User:bob", "*", ALL, True)
    target = [rule("orders", WRITE, "User:copier"), prefixed, rule("bills", WRITE, "User:carl")]
    source = [rule("orders", WRITE, "User:ann"), rule("orders", READ, "User:dan")]
    # When the writers are computed, including rights that will be carried over
    found = writers_of(source, target, "orders")
    assert found.named == frozenset({"User:ann", "User:bob", "User:copier"})
    assert found.in_target == frozenset({"User:bob", "User:copier"})
    assert not found.one_writer
    # Then all but the copier get a guard, with which it is closed
    due = sparing("orders", found, "User:copier")
    assert due == [guard("orders", "User:ann"), guard("orders", "User:bob")]
    then = writers_of(source, [*target, *(rule for one in due for rule in one)], "orders")
    assert then.one_writer
    assert then.left == {"User:copier"}


@pytest.mark.parametrize("principal", ["User:*", "Group:writers"])
def test_a_copy_that_more_may_write_to_than_can_be_named_is_not_closed_by_names(principal: str) -> None:
    found = writers_of([], [rule("orders", WRITE, "User:copier"), rule("orders", WRITE, principal)], "orders")
    assert found.open_to == {principal}
    assert not found.one_writer


def test_a_copy_whose_copier_has_no_rule_is_not_closed_by_rules_to_be_carried_over() -> None:
    # Given a right to write that only the source gives, and a target that lets everybody write for want of rules
    found = writers_of([rule("orders", WRITE, "User:ann")], [], "orders")
    # Then its only remaining user is not taken for the copier
    assert not found.one_writer


def test_a_user_with_a_denial_gets_no_guard_whose_removal_would_lift_it() -> None:
    denial = rule("orders", WRITE, "User:eve", allows=False)
    target = [rule("orders", WRITE, "User:eve"), rule("orders", WRITE, "User:copier")]
    for here, there in (([denial], target), ([], [*target, denial])):
        found = writers_of(here, there, "orders")
        assert found.named == {"User:copier"}
        assert sparing("orders", found, "User:copier") == []
