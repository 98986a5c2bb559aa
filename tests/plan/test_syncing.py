"""Differences of rights and commits between a copy and its source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import Group, Usage, Use, UserBindings, View
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.mirror.syncing import homes, offsets_due, offsets_gone, rules_due, rules_revoked

ALL, READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 4, 8, 10


def rule(name: str, operation: int, **more: object) -> TopicAcl:
    made = TopicAcl("literal", name, "User:ann", "*", operation, True)
    return made._replace(**more)  # type: ignore[arg-type]


def test_rights_to_read_come_along_topic_by_topic_and_rights_to_write_never() -> None:
    source = [
        rule("orders", READ),
        rule("orders", WRITE),
        rule("pay", ALL, pattern="prefixed", principal="User:bob"),
        rule("*", DESCRIBE, principal="User:eve", allows=False),
        rule("other", READ),
    ]
    due = rules_due(source, [], ["orders", "payments"])
    assert {
        (topic_acl.name, topic_acl.principal, topic_acl.operation, topic_acl.allows) for topic_acl in due.missing
    } == {
        ("orders", "User:ann", READ, True),
        ("payments", "User:bob", READ, True),
        ("payments", "User:bob", DESCRIBE, True),
        ("payments", "User:bob", DESCRIBE_CONFIGS, True),
        ("orders", "User:eve", DESCRIBE, False),
        ("payments", "User:eve", DESCRIBE, False),
    }
    assert {topic_acl.pattern for topic_acl in due.missing} == {"literal"}


def test_an_existing_right_of_the_target_is_not_added_and_its_own_rights_are_reported() -> None:
    given_there = [
        rule("ord", READ, pattern="prefixed"),
        rule("orders", DESCRIBE),
        rule("orders", WRITE, principal="User:copier"),
        rule("elsewhere", READ),
    ]
    due = rules_due([rule("orders", READ)], given_there, ["orders"])
    assert due.missing == frozenset()
    assert due.alone == {rule("orders", DESCRIBE)}


def test_only_revoked_rules_that_a_mirror_has_brought_go_and_never_the_last_one_of_a_topic() -> None:
    # Given rules that only the target has: brought ones, one of its own, and one of the account that copies
    brought, own = rule("orders", READ), rule("orders", READ, principal="User:own")
    copiers = rule("orders", READ, principal="User:copier")
    alone = {brought, own, copiers}
    # When they are revoked in the source, then only the brought one goes
    revoked = rules_revoked(alone, alone, {brought, copiers}, "User:copier")
    assert revoked.gone == {brought}
    assert not revoked.last
    # And brought rules that the source still has stay
    assert rules_revoked({own}, alone, {brought}).gone == set()
    # And where no other rule would be left for the topic, all of it stay; rules for prefixes count
    denied = brought._replace(principal="User:eve", allows=False)
    last = rules_revoked({brought, denied}, {brought, denied, rule("other", READ)}, {brought, denied})
    assert last.gone == set()
    assert last.last["orders"] == {brought, denied}
    covered = rules_revoked({brought}, {brought, rule("ord", READ, pattern="prefixed")}, {brought})
    assert covered.gone == {brought}


P = ("orders", 0)


@pytest.mark.parametrize(
    ("source", "target", "seen", "gone"),
    [
        ((), 90, 90, True),
        ((), 40, 90, True),
        ((), 91, 90, False),
        ((), None, 90, False),
        ((P,), 90, 90, False),
        ((), 90, None, False),
    ],
    ids=["deleted", "deleted before it was copied", "further there", "nothing there", "still there", "never seen"],
)
def test_commits_that_were_deleted_in_the_source_go_in_the_target_unless_they_are_its_own(
    source: tuple[tuple[str, int], ...], target: int | None, seen: int | None, gone: bool
) -> None:
    there = {} if target is None else {P: (target, "")}
    assert offsets_gone(source, there, {} if seen is None else {P: seen}) == ((P,) if gone else ())


@pytest.mark.parametrize(
    ("source", "target", "seen", "copied"),
    [
        (5, None, -1, 5),
        (5, 3, -1, 5),
        (5, 5, -1, None),
        (3, 5, 5, 3),
        (3, 5, 9, 3),
        (3, 5, 4, None),
        (3, 5, -1, None),
    ],
    ids=["new", "forwards", "same", "went back", "went back twice", "further there", "nobody knows"],
)
def test_commits_go_forwards_and_back_only_with_the_source(
    source: int, target: int | None, seen: int, copied: int | None
) -> None:
    there = {} if target is None else {P: (target, "")}
    due = offsets_due({P: (source, "m")}, there, {P: seen}, {"orders": 1})
    if source == target:
        assert due.copy == {P: (5, "m")}  # of the same offset the metadata may differ
    else:
        assert due.copy == ({} if copied is None else {P: (copied, "m")})
        assert bool(due.ahead) is (copied is None)


def test_a_partition_that_the_target_does_not_have_yet_waits_alone() -> None:
    due = offsets_due({P: (5, ""), ("orders", 3): (7, "")}, {}, {}, {"orders": 3})
    assert due.copy == {P: (5, "")}
    assert due.lacking == (("orders", 3),)


_STEPS = st.lists(st.tuples(st.sampled_from(["source", "target", "look", "forget"]), st.integers(0, 9)), max_size=30)


@given(_STEPS)
def test_commits_by_other_clients_in_the_target_never_go_backwards(steps: list[tuple[str, int]]) -> None:
    source, target, seen, highest, foreign = 0, -1, -1, 0, -1
    for step, offset in steps:
        if step == "source":
            source = offset
            highest = max(highest, source)
        elif step == "target" and offset > highest:
            target = foreign = offset
        elif step == "forget":
            seen = -1
        elif step == "look":
            before = target
            there = {} if target < 0 else {P: (target, "")}
            due = offsets_due({P: (source, "")}, there, {P: seen}, {"orders": 1})
            target = due.copy.get(P, (target, ""))[0]
            assert target >= before or target == source
            assert not (before == foreign > highest and target < before)
            seen = max(seen, source)


def test_a_group_is_at_home_in_the_clusters_of_its_document_its_bindings_and_its_users() -> None:
    view = View(
        revision=1,
        groups={"moved": Group(name="moved", cluster="west")},
        bindings={"ann": UserBindings(user="ann", cluster="west", groups={"bound": "east"})},
    )
    use = (Use(how="commit", since="2026-01-01T00:00:00Z"),)
    found = homes(view, [Usage(user="ann", groups={"used": use, "bound": use})])
    assert found == {"moved": {"west"}, "bound": {"east"}, "used": {"west"}}
