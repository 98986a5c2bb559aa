"""Who follows a topic: which users' groups are coordinated where, and what crosses over beside it."""

from __future__ import annotations

from ha_core.model import Cluster, Crossing, Topic, Usage, Use, UserBindings, View
from ha_core.plan.dependents import crossing_for, has_user, users_at

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
    assert has_user(usage, "billing")
    assert not has_user(usage, "audit")


def test_topics_that_cross_over_are_named_with_their_operation() -> None:
    crossing = Topic(name="orders", crossing=Crossing(operation="m-1", state="open"))
    view = View(topics={"orders": crossing, "refunds": Topic(name="refunds")})
    assert crossing_for(view, ["refunds", "orders", "unknown"]) == {"orders": "m-1"}
