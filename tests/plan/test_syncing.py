"""What a copy lacks of its source besides records: differences of settings, rights and commits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import Group, Usage, Use, UserBindings, View
from ha_core.plan.facts import AccessRule, Setting
from ha_core.plan.syncing import OF_A_COPY, as_copy, as_writer, homes, offsets_due, offsets_gone, rules_due

ALL, READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 4, 8, 10
DEFAULTS = {
    "retention.ms": Setting("604800000", False),
    "cleanup.policy": Setting("delete", False),
    "min.insync.replicas": Setting("1", False),
    "unclean.leader.election.enable": Setting("false", False),
    "leader.replication.throttled.replicas": Setting("", False),
    "message.timestamp.type": Setting("CreateTime", False),
    "message.timestamp.before.max.ms": Setting(OF_A_COPY["message.timestamp.before.max.ms"], False),
    "message.timestamp.after.max.ms": Setting("3600000", False),
}


def settings(**own: str) -> dict[str, Setting]:
    return DEFAULTS | {key.replace("_", "."): Setting(value, True) for key, value in own.items()}


def rule(name: str, operation: int, **more: object) -> AccessRule:
    made = AccessRule("literal", name, "User:ann", "*", operation, True)
    return made._replace(**more)  # type: ignore[arg-type]


def test_what_is_set_for_the_source_is_set_for_the_copy_and_what_is_not_is_taken_away() -> None:
    source = settings(retention_ms="1000")
    target = settings(cleanup_policy="compact") | {"message.timestamp.after.max.ms": Setting(str(2**63 - 1), True)}
    assert as_copy(source, target, 3).changes == {"retention.ms": "1000", "cleanup.policy": None}


def test_a_default_that_has_the_sources_value_is_set_all_the_same_because_brokers_may_change_it() -> None:
    assert as_copy(settings(cleanup_policy="delete"), settings(), 3).changes["cleanup.policy"] == "delete"


def test_no_more_replicas_have_to_be_in_sync_than_the_copy_has() -> None:
    assert as_copy(settings(min_insync_replicas="2"), settings(), 1).changes["min.insync.replicas"] == "1"
    assert as_copy(settings(min_insync_replicas="2"), settings(), 3).changes["min.insync.replicas"] == "2"


def test_how_many_replicas_of_the_copy_have_to_be_in_sync_is_not_left_to_its_brokers() -> None:
    assert "min.insync.replicas" not in as_copy(settings(), settings(min_insync_replicas="1"), 1).changes


def test_times_are_the_sources_in_a_copy_and_the_brokers_again_when_it_is_written_to() -> None:
    source = settings(message_timestamp_type="LogAppendTime")
    copied = as_copy(source, settings(message_timestamp_type="LogAppendTime"), 1).changes
    assert copied == {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
    copy = settings(message_timestamp_type="CreateTime", message_timestamp_after_max_ms=str(2**63 - 1))
    assert as_copy(source, copy, 1).changes == {}
    written = as_writer(source, copy, 1).changes
    assert written == {"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": None}


def test_settings_that_name_brokers_trade_records_for_uptime_or_are_to_be_left_alone_are_left_alone() -> None:
    source = settings(
        leader_replication_throttled_replicas="0:1", unclean_leader_election_enable="true", retention_ms="1"
    )
    assert as_copy(source, settings(cleanup_policy="compact"), 1, ("retention.*", "cleanup.policy")).changes.keys() <= {
        "message.timestamp.after.max.ms"
    }
    # The second comes with the switch
    assert as_writer(source, settings(), 1, ("retention.*",)).changes == {"unclean.leader.election.enable": "true"}


def test_a_setting_that_the_targets_brokers_do_not_know_is_told_and_not_tried() -> None:
    due = as_copy(settings(retention_ms="1", something_new="x"), settings(retention_ms="1"), 1)
    assert due.unknown == ("something.new",)
    assert "something.new" not in due.changes


def test_rights_to_read_come_along_topic_by_topic_and_rights_to_write_never() -> None:
    source = [
        rule("orders", READ),
        rule("orders", WRITE),
        rule("pay", ALL, pattern="prefixed", principal="User:bob"),
        rule("*", DESCRIBE, principal="User:eve", allows=False),
        rule("other", READ),
    ]
    due = rules_due(source, [], ["orders", "payments"])
    assert {(one.name, one.principal, one.operation, one.allows) for one in due.missing} == {
        ("orders", "User:ann", READ, True),
        ("payments", "User:bob", READ, True),
        ("payments", "User:bob", DESCRIBE, True),
        ("payments", "User:bob", DESCRIBE_CONFIGS, True),
        ("orders", "User:eve", DESCRIBE, False),
        ("payments", "User:eve", DESCRIBE, False),
    }
    assert {one.pattern for one in due.missing} == {"literal"}


def test_a_right_that_the_target_gives_already_is_not_added_and_one_of_its_own_is_told() -> None:
    given_there = [
        rule("ord", READ, pattern="prefixed"),
        rule("orders", DESCRIBE),
        rule("orders", WRITE, principal="User:copier"),
        rule("elsewhere", READ),
    ]
    due = rules_due([rule("orders", READ)], given_there, ["orders"])
    assert due.missing == frozenset()
    assert due.alone == {rule("orders", DESCRIBE)}


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
def test_what_somebody_else_reached_in_the_target_is_never_set_back(steps: list[tuple[str, int]]) -> None:
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


def test_a_group_is_at_home_where_its_document_its_binding_and_those_who_use_it_lead() -> None:
    view = View(
        revision=1,
        groups={"moved": Group(name="moved", cluster="west")},
        bindings={"ann": UserBindings(user="ann", cluster="west", groups={"bound": "east"})},
    )
    use = (Use(how="commit", since="2026-01-01T00:00:00Z"),)
    found = homes(view, [Usage(user="ann", groups={"used": use, "bound": use})])
    assert found == {"moved": {"west"}, "bound": {"east"}, "used": {"west"}}
