"""Guards of remote topics: which are missing, and which rules of a target are guards."""

from ha_core.flows.guards import EVERYBODY, MARKER, missing_guards, placed_guards, remote_guard
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.mirror.copy_guard import guard, placed

ORDERS, BILLS = remote_guard("A.orders"), remote_guard("A.bills")


def test_a_guard_denies_everybody_to_write_and_has_a_marker() -> None:
    assert ORDERS.rule == TopicAcl("literal", "A.orders", EVERYBODY, "*", 4, False)
    assert ORDERS.marker == ORDERS.rule._replace(principal=MARKER)


def test_only_missing_guards_are_placed() -> None:
    assert missing_guards(ORDERS, ["A.orders", "A.bills"]) == [BILLS]
    assert missing_guards([ORDERS.marker], ["A.orders"]) == [ORDERS]
    assert missing_guards([], []) == []


def test_a_denial_from_elsewhere_gets_no_marker_and_is_not_removed() -> None:
    assert missing_guards([ORDERS.rule], ["A.orders"]) == []
    assert placed_guards([ORDERS.rule]) == []


def test_guards_are_found_by_their_markers() -> None:
    reader = TopicAcl("literal", "A.orders", "User:ann", "*", 3, True)
    rules = {*ORDERS, BILLS.marker, reader}

    assert placed_guards(rules) == [BILLS, ORDERS]
    assert placed_guards(rules, ["A.orders", "other"]) == [ORDERS]


def test_guards_of_mirrors_and_guards_of_remote_topics_are_told_apart() -> None:
    assert placed_guards(guard("A.orders")) == []
    assert placed(ORDERS) == []
