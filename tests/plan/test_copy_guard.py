"""Rules that let nobody write to a copy, told apart from those of others."""

from __future__ import annotations

from ha_core.plan.copy_guard import foreign, guard, guards, marked, others, unguarded
from ha_core.plan.facts import AccessRule
from ha_core.plan.syncing import rules_due, writers

READ, WRITE, ALL = 3, 4, 2


def rule(name: str, operation: int, principal: str = "User:ann", allows: bool = True) -> AccessRule:
    return AccessRule("literal", name, principal, "*", operation, allows)


def test_a_copy_is_guarded_when_it_has_the_rule_and_its_marker() -> None:
    marker, denial = guard("orders")
    assert unguarded([*guard("orders"), guard("bills")[0]], ["orders", "bills", "users"]) == ["bills", "users"]
    assert marked([marker]) == {"orders"}
    assert foreign([denial], ["orders"]) == ["orders"]
    assert foreign([marker, denial], ["orders"]) == []


def test_what_others_have_denied_is_no_part_of_a_guard() -> None:
    elses = rule("bills", WRITE, "User:*", allows=False)
    assert others([*guards(["orders"]), elses, rule("orders", READ)]) == {elses, rule("orders", READ)}


def test_rights_to_write_come_along_under_a_guard_only_and_never_more_than_the_source_has() -> None:
    source = [rule("orders", WRITE), rule("orders", ALL, "User:bob"), rule("orders", WRITE, "User:eve", allows=False)]
    to_read = {one for one in rules_due(source, [], ["orders"]).missing if one.operation == WRITE}
    guarded = {one for one in rules_due(source, [], ["orders"], ["orders"]).missing if one.operation == WRITE}
    assert to_read == set()
    assert guarded == {source[0], rule("orders", WRITE, "User:bob"), source[2]}


def test_what_came_along_under_a_guard_and_is_gone_in_the_source_is_told_before_a_switch_puts_it_in_force() -> None:
    # Given a right to write and a denial that came along, and that nobody has any more in the source
    revoked, lifted = rule("orders", WRITE), rule("orders", WRITE, "User:eve", allows=False)
    # Then both are told, but not where no guard stands: what allows or denies to write there came from somebody else
    assert rules_due([], [revoked, lifted], ["orders"], ["orders"]).alone == {revoked, lifted}
    assert rules_due([], [revoked, lifted], ["orders"]).alone == set()


def test_those_who_may_write_are_named() -> None:
    everywhere = AccessRule("prefixed", "ord", "User:bob", "*", ALL, True)
    rules = [rule("orders", WRITE), rule("bills", WRITE, "User:eve"), rule("orders", READ, "User:carl"), everywhere]
    assert writers(rules, ["orders"]) == {"User:ann", "User:bob"}
