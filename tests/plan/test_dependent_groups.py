"""Groups that follow their topics: their users, and reasons why they stay."""

from ha_core.model import Cluster, Crossing, Group, MoveRequest, MoveSet, Scope, Topic, Usage, Use, UserBindings, View
from ha_core.plan.facts.clusters import Facts
from ha_core.plan.move.closure import Closure, users_at
from ha_core.plan.preflight import DEPENDENT_RULES, judge
from ha_core.plan.preflight.groups import DependentsCase

SINCE = "2026-01-01T00:00:00Z"


def test_a_group_belongs_to_users_whose_binding_leads_to_its_coordinator() -> None:
    # Given four users of a group, each with another binding
    use = Use(instance="i-1", how="commit", since=SINCE)
    usage = {name: Usage(user=name, groups={"billing": (use,)}) for name in ("alice", "bob", "carol", "dave")}
    view = View(
        clusters={
            "east": Cluster(name="east", bootstrap="h:1", default=True),
            "west": Cluster(name="west", bootstrap="h:2"),
        },
        bindings={
            "bob": UserBindings(user="bob", cluster="west"),
            "carol": UserBindings(user="carol", cluster="west", groups={"billing": "east"}),
            "dave": UserBindings(user="dave", instances={"i-1": "west"}),
        },
    )
    # When its users are asked for
    # Then each cluster has those whose binding leads there
    assert users_at(view, usage, "billing", "east") == ("alice", "carol")
    assert users_at(view, usage, "billing", "west") == ("bob", "dave")
    assert users_at(view, usage, "audit", "east") == ()


def a_case(view: View, usage: dict[str, Usage]) -> DependentsCase:
    """Group billing reads orders, which moves, and has committed offsets of two other topics."""
    request = MoveRequest(scope=Scope(topics=("orders",)), origin="east", target="west", reason="r")
    committed = {"billing": (("orders", 0), ("refunds", 0), ("audit", 1))}
    more = {"usage": usage, "readers": {"billing": ("orders",)}, "committed": committed}
    return DependentsCase(view, request, Closure(MoveSet()), Facts(), **more)  # type: ignore[arg-type]


def test_a_group_without_a_known_user_does_not_follow_unless_it_has_moved_before() -> None:
    used = {"alice": Usage(user="alice", groups={"billing": (Use(instance="i-1", how="commit", since=SINCE),)})}
    moved = View(groups={"billing": Group(name="billing", cluster="west")})
    (verdict,) = judge(DEPENDENT_RULES, a_case(View(), {}))
    assert verdict.code == "unknown-group-user"
    assert judge(DEPENDENT_RULES, a_case(View(), used)) == []
    assert judge(DEPENDENT_RULES, a_case(moved, {})) == []


def test_a_group_that_reads_another_crossing_topic_is_reported_with_the_operation() -> None:
    used = {"alice": Usage(user="alice", groups={"billing": (Use(instance="i-1", how="commit", since=SINCE),)})}
    crossing = Crossing(operation="m-1", state="open")
    topics = {name: Topic(name=name, crossing=crossing) for name in ("orders", "refunds", "audit")}
    (verdict,) = judge(DEPENDENT_RULES, a_case(View(topics=topics), used))
    assert verdict.code == "topic-crosses"
    assert "also reads audit, which crosses over in operation m-1" in verdict.text
    assert judge(DEPENDENT_RULES, a_case(View(topics={"orders": topics["orders"]}), used)) == []


def test_a_group_of_super_users_only_stays_where_they_have_to_be() -> None:
    use = (Use(instance="i-1", how="commit", since=SINCE),)
    used = {name: Usage(user=name, groups={"billing": use}) for name in ("root", "alice")}
    east = Cluster(name="east", bootstrap="h:1", default=True, super_users=("root",))
    (verdict,) = judge(DEPENDENT_RULES, a_case(View(clusters={"east": east}), {"root": used["root"]}))
    assert (verdict.code, verdict.about) == ("super-user", "group billing")
    assert judge(DEPENDENT_RULES, a_case(View(clusters={"east": east}), used)) == []
