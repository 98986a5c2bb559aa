"""Every bad input is found before anything is changed, with the thing, the value and the way out."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from ha_core.model import (
    Extent,
    Group,
    Lock,
    Scope,
    Topic,
    Usage,
    Use,
    UserBindings,
)
from ha_core.model.extent import append, identity
from ha_core.model.mirror import COPY_LOG
from ha_core.model.topic import Deletion
from ha_core.plan.facts.clusters import GroupFacts, OpenTransaction
from ha_core.plan.facts.verdict import Code, Verdict
from ha_core.plan.move.closure import closure
from ha_core.plan.preflight.case import outside_topics
from tests.plan.maps import cut
from tests.plan.preflight_case import EMPTY, HERE, MASK, MEMBERS, NOWHERE, SINCE, SOUND, Case


def errors(case: Case) -> list[Verdict]:
    return [verdict for verdict in case.judge() if verdict.level == "error"]


def only(case: Case, level: str, about: str, *words: str) -> Verdict:
    """Assert that the only verdict of this level is about `about` and contains `words`."""
    verdicts = [verdict for verdict in case.judge() if verdict.level == level]
    assert [verdict.about for verdict in verdicts] == [about], verdicts
    for word in words:
        assert word in verdicts[0].text + verdicts[0].remedy, verdicts[0]
    if level in {"error", "warning"}:
        assert verdicts[0].remedy
    return verdicts[0]


def test_a_sound_move_has_no_verdict() -> None:
    assert SOUND.judge() == []
    assert SOUND.moved() == (("orders",), ("billing",))


def test_a_forced_move_says_how_many_offsets_without_records_its_cut_leaves() -> None:
    verdicts = {verdict.code: verdict for verdict in SOUND.forced.asking(unread="wait").judge()}

    assert (verdicts["offset-hole"].level, verdicts["offset-hole"].number) == ("warning", 3_001_000_000)


@pytest.mark.parametrize(
    ("measured", "bound", "refused"),
    [(None, 100_000, True), (50.0, 999, True), (50.0, 1_000, False), (900.0, 8_999, True), (900.0, 9_000, False)],
)
def test_an_operators_rate_has_to_be_far_above_the_measured_one(
    measured: float | None, bound: int, refused: bool
) -> None:
    case = SOUND.forced.asking(unread="wait", max_rate_records_s=bound)
    case = case.with_topic("east", replace(HERE, age_s=20.0, fastest=measured))

    verdicts = {verdict.code: verdict for verdict in case.judge()}

    assert ("rate-too-low" in verdicts) is refused
    assert (verdicts["offset-hole"].number or 0) < 3_000_000_000 // 10


def test_a_topic_that_is_being_deleted_is_left_out_and_refused_by_name() -> None:
    tombstone = Topic(name="orders", deletion=Deletion(operation="delete-1", since=SINCE))
    deleted = replace(SOUND, topics=(tombstone,))

    assert [(verdict.level, verdict.code) for verdict in deleted.judge() if verdict.about == "topic orders"] == [
        ("warning", "deleted-topic")
    ]
    only(replace(deleted, scope=Scope(topics=("orders",))), "error", "topic orders", "topics delete orders")


def test_a_copy_log_moves_with_no_user_that_was_seen_to_use_it() -> None:
    (alice,) = SOUND.usage
    use = (Use(instance="app", how="fetch", since=SINCE),)
    reads = replace(SOUND, usage=(alice.changed(topics={**alice.topics, COPY_LOG: use}),))

    assert reads.judge() == []
    assert reads.moved() == SOUND.moved()


def test_internal_topics_are_left_out_and_refused_by_name() -> None:
    # Given a user that reads offsets, as a monitor does
    (alice,) = SOUND.usage
    use = (Use(instance="app", how="fetch", since=SINCE),)
    monitor = replace(SOUND, usage=(alice.changed(topics={**alice.topics, "__consumer_offsets": use}),)).with_topic(
        "east", HERE, "__consumer_offsets"
    )
    # When it moves, they stay
    assert [(verdict.level, verdict.code) for verdict in monitor.judge()] == [("info", "internal-topic")]
    assert monitor.moved() == SOUND.moved()
    # When they are named, the move is refused
    for name in ("__consumer_offsets", "switchyard-copies"):
        named = replace(SOUND, scope=Scope(topics=(name,))).with_topic("east", HERE, name)
        assert "internal-topic" in [verdict.code for verdict in errors(named)]


@pytest.mark.parametrize("side", ["origin", "target"])
def test_an_unknown_cluster_is_an_error_that_lists_the_known_ones(side: str) -> None:
    only(SOUND.asking(**{side: "wset"}), "error", "cluster wset", "'wset'", "east, north, west")


def test_origin_and_target_must_differ() -> None:
    only(SOUND.asking(target="east"), "error", "cluster east", "same cluster")


def test_a_masked_target_is_an_error_that_says_why_it_is_masked() -> None:
    only(SOUND.with_cluster("west", masked=MASK), "error", "cluster west", "masked", "rack fire", "unmask west")


def test_a_masked_origin_gives_a_warning_about_unreadable_records() -> None:
    only(SOUND.with_cluster("east", masked=MASK), "warning", "cluster east", "below the cut")


@pytest.mark.parametrize("name", ["east", "west"])
def test_a_cluster_out_of_reach_is_an_error_with_its_address(name: str) -> None:
    case = SOUND.with_reach(name, reachable=False, error="connection refused")

    only(case, "error", f"cluster {name}", f"{name}:9092", "connection refused")


@pytest.mark.parametrize("name", ["east", "west"])
def test_a_cluster_with_one_broker_that_answers_is_never_called_unreachable_or_lost(name: str) -> None:
    case = SOUND.with_reach(name, reachable=False, answers=True, error="broker 2 cannot be reached")

    verdict = only(case, "error", f"cluster {name}", "answers, but", "broker 2", "not lost")

    assert "forced" not in verdict.remedy
    assert "migrate-from-fault" not in verdict.remedy


def test_the_verdict_on_a_lost_origin_suggests_the_command_that_moves_its_topics() -> None:
    # Given a lost origin, and a scope of users or of topics and groups
    lost = SOUND.with_reach("east", reachable=False, error="connection refused")
    topics = replace(lost, scope=Scope(topics=("orders",), user_groups=(("alice", "billing"),)))
    # When it is judged
    # Then the suggested command is one that takes such a scope
    only(lost, "error", "cluster east", "`switchyard switch` with --mode forced")
    only(
        topics,
        "error",
        "cluster east",
        "`switchyard migrate-from-fault orders --from east --to west --unread wait|skip --reason …`",
    )


def test_a_cluster_that_was_not_asked_counts_as_out_of_reach() -> None:
    only(replace(SOUND, reach={"east": SOUND.reach["east"]}), "error", "cluster west", "it was not asked")


@pytest.mark.parametrize("reachable", [True, False])
def test_a_target_that_refuses_the_service_account_is_not_called_unreachable(reachable: bool) -> None:
    case = SOUND.with_reach("west", reachable=reachable, refused=True, error="SASL authentication failed")

    only(case, "error", "cluster west", "refuses the service account", "SASL authentication failed", "security profile")


def test_an_unknown_user_is_an_error() -> None:
    only(replace(SOUND, scope=Scope(users=("alice", "alcie"))), "error", "user alcie", "not known")


def test_a_user_that_is_only_bound_changes_its_binding_with_a_warning() -> None:
    case = replace(SOUND, scope=Scope(users=("bob",)), bindings=(UserBindings(user="bob", cluster="east"),))

    only(case, "warning", "user bob", "only its binding")
    assert errors(case) == []


@pytest.mark.parametrize(
    "scope",
    [
        Scope(users=("alice", "root")),
        Scope(instances=(("root", "app"),)),
        Scope(user_topics=(("root", "orders"),)),
        Scope(user_groups=(("root", "billing"),)),
    ],
)
def test_a_super_user_of_any_cluster_is_no_scope(scope: Scope) -> None:
    # Given an account that may do anything in a cluster
    case = replace(SOUND.with_cluster("north", super_users=("root", "admin")), scope=scope)
    # When it is in a scope, in any form
    found = {verdict.code: verdict for verdict in errors(case)}["super-user"]
    # Then the move is refused with the reason and the way out
    assert found.about == "user root"
    assert "super user of cluster north" in found.text
    assert "--super-user" in found.remedy
    assert "super-user" not in [verdict.code for verdict in replace(case, scope=Scope(users=("alice",))).judge()]


def test_a_user_bound_to_a_third_cluster_is_an_error() -> None:
    case = replace(SOUND, scope=Scope(users=("bob",)), bindings=(UserBindings(user="bob", cluster="north"),))

    only(case, "error", "user bob", "bound to north")


STRAYED = replace(SOUND, bindings=(UserBindings(user="alice", cluster="west"),), group_facts={})
"""Alice is bound to west, and the topic that she uses is in east."""


def test_a_switch_to_where_its_user_is_already_is_refused_where_only_strays_would_move() -> None:
    found = only(STRAYED, "error", "user:alice", "Bound to west already: only topic:orders would move there")

    assert (found.code, STRAYED.moved()[0]) == ("bound-already", ("orders",))
    assert "--from west --to east" in found.remedy
    assert "`switchyard switch topic:orders --from east --to west`" in found.remedy


@pytest.mark.parametrize(
    "case",
    [
        replace(STRAYED, scope=Scope(users=("alice",), topics=("orders",))),
        replace(STRAYED, scope=Scope(topics=("orders",))).asking(include_other_users=True),
        STRAYED.forced.asking(unread="wait"),
    ],
    ids=["named beside the user", "named alone", "forced"],
)
def test_strays_that_are_named_or_whose_cluster_is_dead_may_move(case: Case) -> None:
    assert "bound-already" not in [verdict.code for verdict in errors(case)]


def test_names_like_the_mistyped_user_topic_and_cluster_are_proposed() -> None:
    user = replace(SOUND, scope=Scope(users=("alcie",)))
    topic = replace(SOUND, scope=Scope(topics=("ordres",)), topic_facts={("east", "orders"): HERE})

    assert "Did you mean alice?" in only(user, "error", "user alcie").remedy
    assert "Did you mean orders?" in only(topic, "error", "topic ordres").remedy
    (cluster,) = [one for one in errors(SOUND.asking(target="wset")) if one.code == "unknown-cluster"]
    assert "Did you mean west" in cluster.remedy


def test_an_unknown_topic_of_the_scope_is_an_error() -> None:
    only(replace(SOUND, scope=Scope(topics=("ordres",))), "error", "topic ordres", "exists in no cluster")


def test_a_topic_that_was_used_and_deleted_is_left_out_with_a_warning() -> None:
    case = SOUND.with_topic("east", NOWHERE).with_group("east", GroupFacts())

    only(case, "warning", "topic orders", "left out")
    assert case.moved() == ((), ("billing",))


def test_a_target_topic_with_data_of_its_own_is_an_error_that_counts_it() -> None:
    only(
        SOUND.with_topic("west", replace(HERE, ends={0: 0, 1: 7})), "error", "topic orders", "7 offsets", "partition 1"
    )


def test_an_emptied_target_topic_that_no_map_knows_has_data_of_its_own() -> None:
    case = SOUND.with_topic("west", replace(HERE, starts={0: 0, 1: 7}, ends={0: 0, 1: 7}))

    only(case, "error", "topic orders", "data of its own")


def test_an_empty_target_topic_of_the_same_shape_is_used() -> None:
    assert SOUND.with_topic("west", EMPTY).judge() == []


def test_another_partition_count_in_the_target_is_an_error() -> None:
    only(SOUND.with_topic("west", replace(EMPTY, partitions=3)), "error", "topic orders", "3 partitions", "2 here")


def test_a_target_topic_that_was_not_asked_for_is_an_error() -> None:
    unasked = {("east", "orders"): HERE}

    only(replace(SOUND, topic_facts=unasked), "error", "topic orders", "not known whether")


def back_in_east() -> Case:
    """Orders was in west, then came to east, and goes back."""
    extents = {p: cut(cut(identity("west"), 5, "east", 0), n, "west", 5)[:1] for p, n in ((0, 0), (1, 0))}
    open_again = {
        p: (*e, Extent(cluster="east", start=5, end=None, base=0, writer_epoch=1)) for p, e in extents.items()
    }
    case = replace(SOUND, topics=(Topic(name="orders", writer="east", partitions=open_again),))
    return case.with_topic("west", replace(HERE, ends={0: 5, 1: 5}))


def test_target_records_that_the_map_knows_are_no_foreign_data() -> None:
    assert back_in_east().judge() == []


def test_target_records_written_past_the_gateways_are_counted_in_a_warning() -> None:
    case = back_in_east().with_topic("west", replace(HERE, ends={0: 5, 1: 8}))

    only(case, "warning", "topic orders", "Partition 1", "3 offsets", "a client that bypasses gateways")


def test_a_target_that_holds_less_than_the_map_says_is_a_warning() -> None:
    only(back_in_east().with_topic("west", replace(HERE, ends={0: 5, 1: 4})), "warning", "topic orders", "lost there")


def test_a_target_topic_that_vanished_with_its_records_is_an_error() -> None:
    only(back_in_east().with_topic("west", NOWHERE), "error", "topic orders", "was deleted in west")


def test_a_log_whose_extents_have_aged_is_no_foreign_data_once_it_is_empty() -> None:
    moved = {p: append(identity("west"), "east", 5, 0)[1:] for p in (0, 1)}
    case = replace(SOUND, topics=(Topic(name="orders", writer="east", partitions=moved),))

    assert case.with_topic("west", replace(HERE, starts={0: 5, 1: 5}, ends={0: 5, 1: 5})).judge() == []
    only(case.with_topic("west", replace(HERE, starts={0: 5, 1: 5}, ends={0: 5, 1: 6})), "error", "topic orders")


def test_a_running_operation_on_the_scope_is_named_once_with_its_owner_and_all_that_it_works_on() -> None:
    keys = ("group:billing", "topic:orders", "user:alice")
    its = tuple(Lock(key=key, operation="switch-1", by="cli:eve@host", since=SINCE) for key in keys)
    words = ("group billing, topic orders, user alice", "cli:eve@host", "resume switch-1")
    for locks in (its, its[1:2]):
        only(replace(SOUND, locks=locks), "error", "operation switch-1", *(words if locks == its else words[1:]))


def test_a_lock_that_this_version_cannot_read_has_a_way_out_without_its_operation() -> None:
    case = replace(SOUND, locks=(Lock.unreadable("topic:orders"),))
    (verdict,) = case.judge()
    assert (verdict.level, verdict.code, verdict.about) == ("error", "locked", "topic orders")
    assert "zkCli.sh delete ROOT/locks/topic%3Aorders`" in verdict.remedy
    assert "resume" not in verdict.remedy


def test_locks_outside_of_the_scope_give_no_verdict() -> None:
    other = Lock(key="topic:other", operation="switch-1", by="eve", since=SINCE)

    assert replace(SOUND, locks=(other,)).judge() == []


def test_users_outside_of_the_scope_are_an_error_unless_they_are_included() -> None:
    bob = Usage(user="bob", topics={"orders": (Use(instance="b", how="fetch", since=SINCE),)})
    case = replace(SOUND, usage=(*SOUND.usage, bob))

    only(case, "error", "topic orders", f"bob+b (since {SINCE})", "--include-other-users")
    only(case.asking(include_other_users=True), "info", "topic orders", "They move too")
    assert errors(case.asking(include_other_users=True)) == []


def test_a_topic_that_is_in_the_target_already_is_left_out() -> None:
    case = SOUND.with_topic("east", NOWHERE).with_topic("west", HERE)

    only(case, "info", "topic orders", "already")
    assert case.moved() == ((), ("billing",))


def test_a_topic_that_is_written_in_a_third_cluster_is_an_error() -> None:
    mapped = Topic(name="orders", writer="north", partitions={0: identity("north"), 1: identity("north")})

    only(replace(SOUND, topics=(mapped,)), "error", "topic orders", "written in north", "--from north")
    only(SOUND.with_topic("east", NOWHERE).with_topic("north", HERE), "error", "topic orders", "written in north")


def test_a_topic_in_two_clusters_is_written_where_its_users_are_bound() -> None:
    everywhere = SOUND.with_topic("north", HERE)

    assert everywhere.judge() == []
    fine = UserBindings(user="alice", cluster="east", instances={"app": "north"})
    case = replace(everywhere, scope=Scope(instances=(("alice", "app"),)), bindings=(fine,))
    assert any(v.about == "topic orders" and "written in north" in v.text for v in case.judge())


def test_a_compacted_topic_is_a_warning_about_offsets() -> None:
    case = SOUND.with_topic("east", replace(HERE, config={"cleanup.policy": "compact,delete"}))

    only(case, "warning", "topic orders", "compacted", "holes")


def test_a_topic_with_transactions_is_a_warning_to_initialise_producers_again() -> None:
    case = SOUND.with_topic("east", replace(HERE, transactional=True))

    only(case, "warning", "topic orders", "UNKNOWN_PRODUCER_ID", "Java from 2.5 on")


def test_an_origin_without_describe_producers_gives_a_warning_about_doubled_batches() -> None:
    only(SOUND.with_reach("east", describe_producers=False), "warning", "cluster east", "2.8", "appended again")


def test_a_replication_that_the_target_cannot_have_is_lowered_with_a_note() -> None:
    case = SOUND.with_topic("east", replace(HERE, replication=3))

    only(case, "info", "topic orders", "from 3 to 1")
    case = SOUND.with_topic("east", replace(HERE, config={"min.insync.replicas": "2"}))
    only(case, "info", "topic orders", "min.insync.replicas", "from 2 to 1")


def test_no_live_gateway_is_a_warning() -> None:
    only(replace(SOUND, gateways=()), "warning", "gateways", "No gateway is alive")


def test_nothing_to_move_is_an_error() -> None:
    settled = replace(SOUND, bindings=(UserBindings(user="alice", cluster="west"),))
    case = settled.with_topic("east", NOWHERE).with_topic("west", HERE)

    only(case, "error", "user:alice", "Nothing is to move from east to west")


def test_committed_offsets_of_a_topic_that_the_target_lacks_are_an_error() -> None:
    stable = GroupFacts("Stable", "consumer", MEMBERS, {("orders", 0): 5, ("audit", 0): 7})
    case = SOUND.with_group("east", stable).with_topic("east", HERE, "audit").with_topic("west", NOWHERE, "audit")

    only(case, "error", "group billing", "audit", "refuse these commits", "topic:NAME")
    assert case.with_topic("west", EMPTY, "audit").judge() == []
    assert case.with_topic("east", NOWHERE, "audit").judge() == [], "offsets of a deleted topic are of no use"


def test_topics_outside_of_the_move_with_committed_offsets_are_listed() -> None:
    stable = GroupFacts("Stable", "consumer", MEMBERS, {("orders", 0): 5, ("audit", 0): 7})
    case = SOUND.with_group("east", stable)
    view, request, facts = case.parts()
    moves = closure(view, case.usage_by_user, request).moves

    assert outside_topics(moves, facts) == ("audit",)
    only(case, "error", "group billing", "audit")


@pytest.mark.parametrize(("state", "kind"), [("PreparingRebalance", "consumer"), ("Stable", "connect")])
def test_a_group_that_cannot_be_adopted_with_its_members_has_to_join_again(state: str, kind: str) -> None:
    only(SOUND.with_group("east", GroupFacts(state, kind, MEMBERS)), "info", "group billing", state, kind)


def test_a_group_without_members_gives_no_verdict() -> None:
    assert SOUND.with_group("east", GroupFacts("Empty", "consumer", (), {("orders", 0): 5})).judge() == []


def test_live_members_in_the_target_are_an_error_unless_the_group_was_there_before() -> None:
    case = SOUND.with_group("west", GroupFacts("Stable", "consumer", MEMBERS))

    only(case, "error", "group billing", "1 member in west")
    only(replace(case, groups=(Group(name="billing", cluster="east"),)), "warning", "group billing", "1 member")


def test_a_group_with_staying_members_is_an_error() -> None:
    bob = Usage(user="bob", groups={"billing": (Use(instance="b", how="join", since=SINCE),)})

    only(replace(SOUND, usage=(*SOUND.usage, bob)), "error", "group billing", "bob+b", "split", "user:NAME##GROUP")


def test_a_group_coordinated_in_a_third_cluster_is_an_error_and_in_the_target_left_out() -> None:
    group_alone = replace(SOUND, scope=Scope(user_groups=(("alice", "billing"),), topics=("orders",)))
    at = {name: UserBindings(user="alice", cluster="east", groups={"billing": name}) for name in ("north", "west")}

    north = [v for v in replace(group_alone, bindings=(at["north"],)).judge() if v.about == "group billing"]
    west = [v for v in replace(group_alone, bindings=(at["west"],)).judge() if v.about == "group billing"]

    assert [v.level for v in north] == ["error"]
    assert "coordinated in north" in north[0].text
    assert [v.level for v in west] == ["info"]
    assert "already" in west[0].text


def test_a_forced_move_from_a_cluster_that_answers_is_an_error_unless_it_is_masked() -> None:
    case = SOUND.asking(mode="forced")

    only(case, "error", "cluster east", "answers", "--mode planned", "mask east")
    assert errors(case.with_cluster("east", masked=MASK)) == []


def test_a_forced_move_from_a_cluster_that_refuses_the_account_is_an_error() -> None:
    case = SOUND.asking(mode="forced").with_reach("east", reachable=False, refused=True, error="denied")

    only(case, "error", "cluster east", "refuses the service account")


def test_a_forced_move_needs_the_partition_count_and_warns_of_unknown_facts() -> None:
    case = SOUND.forced

    only(case, "error", "topic orders", "how many partitions", "Create it in west")
    taken = case.with_topic("west", EMPTY)
    assert errors(taken) == []
    assert any(v.about == "cluster east" and "may be unknown" in v.text for v in taken.judge())
    assert any(v.about == "group billing" and "cannot be read" in v.text for v in taken.judge())
    assert taken.moved() == (("orders",), ("billing",))


def test_a_forced_move_takes_the_partition_count_from_the_map() -> None:
    mapped = Topic(name="orders", writer="east", partitions={0: identity("east"), 1: identity("east")})

    assert errors(replace(SOUND.forced, topics=(mapped,))) == []


def test_a_forced_move_from_a_cluster_that_answers_is_allowed_by_force() -> None:
    assert errors(SOUND.asking(mode="forced", force=True)) == []


def test_a_forced_move_takes_the_last_seen_shape_of_a_topic_and_says_how_old_it_is() -> None:
    # Given a dead origin whose topic and group were recorded minutes ago
    seen = replace(HERE, age_s=240.0)
    case = SOUND.forced.with_topic("east", seen).with_group(
        "east", GroupFacts("Empty", offsets={("orders", 0): 5}, age_s=60.0)
    )
    # When the move is judged
    verdicts = case.judge()
    # Then there is no error, and the ages are reported; facts two days old give a warning
    assert [v for v in verdicts if v.level == "error"] == []
    assert any(v.level == "info" and "4 min ago" in v.text for v in verdicts)
    assert any("offsets of 1 group are those of 60 s ago" in v.text for v in verdicts)
    assert any(
        v.level == "warning" and "2 days ago" in v.text
        for v in case.with_topic("east", replace(HERE, age_s=2 * 86_400.0)).judge()
    )


def test_a_forced_move_warns_of_committed_offsets_of_topics_that_do_not_move() -> None:
    group = GroupFacts("Empty", offsets={("orders", 0): 5, ("other", 0): 5}, age_s=60.0)
    case = SOUND.forced.with_topic("east", replace(HERE, age_s=1.0)).with_group("east", group)

    assert errors(case) == []
    assert any(v.level == "warning" and "other" in v.text for v in case.judge())


def test_a_target_that_returned_with_less_is_an_error_until_the_loss_is_accepted() -> None:
    # Given a topic whose older records are in the target, as many as were known
    east = append(identity("west"), "east", 1000, 0, known_end=80)
    mapped = Topic(name="orders", writer="east", partitions={0: east, 1: identity("east")})
    whole = replace(HERE, ends={0: 80, 1: 0})
    # When the target has less than that
    only(
        replace(SOUND, topics=(mapped,)).with_topic("west", replace(whole, ends={0: 79, 1: 0})),
        "error",
        "topic orders",
        "ends at 79",
        "--accept-loss",
    )
    # Then it is an error, and none with all of it
    assert errors(replace(SOUND, topics=(mapped,)).with_topic("west", whole)) == []


def test_an_unreachable_target_of_a_forced_move_is_an_error() -> None:
    only(
        SOUND.forced.with_reach("west", reachable=False, error="timed out"),
        "error",
        "cluster west",
        "cannot be reached",
    )


def test_errors_are_listed_before_warnings() -> None:
    case = replace(SOUND, gateways=()).with_topic("west", replace(EMPTY, partitions=3))

    assert [verdict.level for verdict in case.judge()] == ["error", "warning"]


def test_every_code_is_that_of_a_verdict() -> None:
    source = "".join(path.read_text() for path in Path("ha_core").rglob("*.py") if path.name != "verdict.py")

    assert [code for code in get_args(Code) if f'"{code}",' not in source] == []


def consumer(software: str | None, *how: str) -> Case:
    """Alice's client app joins, commits or fetches with that software."""
    uses = tuple(Use(instance="app", how=one, since=SINCE, software=software) for one in how)  # type: ignore[arg-type]
    return replace(SOUND, usage=(Usage(user="alice", topics={"orders": uses}, groups={"billing": uses}),))


@pytest.mark.parametrize(
    ("software", "how", "issue"),
    [
        ("apache-kafka-java/2.6.1", ("join", "commit"), "KAFKA-10793"),
        ("apache-kafka-java/2.7.0", ("fetch",), "KAFKA-10793"),
        ("apache-kafka-java/2.8.0", ("commit",), "KAFKA-13563"),
        ("apache-kafka-java/2.8.0", ("join", "commit"), ""),
        ("apache-kafka-java/3.9.2", ("join", "commit"), ""),
        ("apache-kafka-java/2.6.1", ("produce",), ""),
        ("librdkafka/2.6.1", ("join", "commit"), ""),
        (None, ("join", "commit"), ""),
    ],
)
def test_clients_with_a_version_that_may_stop_after_a_move_are_named(
    software: str | None, how: tuple[str, ...], issue: str
) -> None:
    verdicts = [verdict for verdict in consumer(software, *how).judge() if verdict.code == "client-version"]

    assert [verdict.about for verdict in verdicts] == ([issue] if issue else [])
    for verdict in verdicts:
        assert (verdict.level, verdict.number, verdict.unit) == ("warning", 1, "clients")
        assert f"alice+app ({str(software).rpartition('/')[2]})" in verdict.text
        assert "Update them" in verdict.remedy


def with_open(*open_: OpenTransaction) -> Case:
    here = replace(HERE, transactional=True, transactional_ids=("pay-1",), open_transactions=open_)
    return SOUND.with_topic("east", here)


def test_transactional_ids_and_open_transactions_of_the_scope_are_named_with_their_age() -> None:
    young = OpenTransaction(0, 40, 2.0, "pay-1")

    verdicts = {verdict.code: verdict for verdict in with_open(young).judge()}
    assert "transactional ids pay-1" in verdicts["transactional"].text
    assert (verdicts["open-transaction"].level, verdicts["open-transaction"].number) == ("info", 1)
    # One that will not end before the move is undone is more than a word
    late = {verdict.code: verdict for verdict in with_open(young, replace(young, age_s=11.0)).judge()}
    assert (late["open-transaction"].level, late["open-transaction"].number) == ("warning", 2)
    assert "--drain-timeout" in late["open-transaction"].remedy


def test_a_hanging_transaction_refuses_a_planned_move_with_the_command_that_ends_it() -> None:
    case = with_open(OpenTransaction(1, 40, 4000.0, hanging=True))

    verdict = only(case, "error", "topic orders", "partition 1 since offset 40")

    assert (verdict.code, verdict.number, verdict.unit) == ("hanging-transaction", 1, "transactions")
    assert "--bootstrap-server east:9092 abort --topic orders --partition 1 --start-offset 40" in verdict.remedy


def test_a_user_with_local_names_is_not_moved_with_running_clients() -> None:
    named = Case(bindings=(UserBindings(user="alice", cluster="east", local_names="A"),))

    (found,) = errors(named)

    assert (found.code, found.about) == ("local-names", "user alice")
    assert "bindings delete user:alice --local-names" in found.remedy
