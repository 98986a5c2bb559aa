"""Explanations of how a client is served name what decided."""

import pytest

from ha_core.model import Cluster, Extent, Fence, Group, Identity, Mask, Topic, UserBindings, View
from ha_core.model.access import AccessRule, AclOperation, PatternType, Permission, ResourceType, User
from ha_core.plan.access.rights import Rights
from ha_core.plan.routing.explaining import Explanation, Kind, explain

ANN = Identity("ann", "billing")
BOUND = UserBindings(user="ann", cluster="west", groups={"g": "east"})


def rule(name: str, operation: AclOperation, effect: Permission, principal: str = "User:ann") -> AccessRule:
    return AccessRule(principal, ResourceType.TOPIC, name, PatternType.PREFIXED, operation, effect)


RIGHTS = Rights(
    [User("ann", frozenset({"readers"})), User("root", super_user=True)],
    [
        rule("orders", AclOperation.READ, Permission.ALLOW, "Group:readers"),
        rule("orders.secret", AclOperation.READ, Permission.DENY),
        rule("orders", AclOperation.WRITE, Permission.ALLOW, "User:bob"),
    ],
)


def explained(
    name: str = "orders",
    kind: Kind = "topic",
    identity: Identity = ANN,
    bindings: UserBindings | None = None,
    topic: Topic | None = None,
    group: Group | None = None,
    masked: str | None = None,
    rights: Rights | None = None,
    holders: tuple[str, ...] = ("east",),
) -> Explanation:
    clusters = {
        cluster: Cluster(
            name=cluster,
            bootstrap="h:1",
            default=cluster == "east",
            masked=Mask(since="", reason="fire", by="ops") if cluster == masked else None,
        )
        for cluster in ("east", "west")
    }
    view = View(
        revision=7,
        clusters=clusters,
        bindings={} if bindings is None else {bindings.user: bindings},
        topics={} if topic is None else {topic.name: topic},
        groups={} if group is None else {group.name: group},
    )
    return explain(view, identity, kind, name, rights, "", lambda _name: holders)


def test_where_nothing_is_bound_the_topic_is_served_where_it_is() -> None:
    explanation = explained()
    assert (explanation.leading.cluster, explanation.leading.by, explanation.moved.state) == (
        "east",
        "topic",
        "as it is",
    )
    assert explanation.allowed.by == "off"


def test_a_binding_to_a_cluster_without_the_topic_is_marked_as_differing() -> None:
    explanation = explained(bindings=BOUND)
    assert (explanation.leading.cluster, explanation.leading.by, explanation.leading.differs) == ("east", "user", True)


@pytest.mark.parametrize(
    ("bindings", "holders", "no_commits_in"),
    [
        (BOUND, ("east",), "west"),
        (None, ("west",), "east"),
        (BOUND, ("east", "west"), None),
        (None, ("east",), None),
        (BOUND, (), None),  # nothing is known of the topic yet
    ],
)
def test_a_reader_whose_groups_are_in_a_cluster_without_the_topic_is_warned_of_refused_commits(
    bindings: UserBindings | None, holders: tuple[str, ...], no_commits_in: str | None
) -> None:
    assert explained(bindings=bindings, holders=holders).leading.no_commits_in == no_commits_in


def test_a_mask_is_named_with_its_reason() -> None:
    assert explained(masked="east").leading.masked == "fire"


def test_a_moved_topic_is_served_by_its_map_and_a_fence_names_its_operation() -> None:
    extents = (
        Extent(cluster="east", start=0, base=0, writer_epoch=1),
        Extent(cluster="west", start=9, base=0, writer_epoch=2),
    )
    fenced = Topic(name="orders", writer="west", partitions={0: extents}, fence=Fence(operation="op-1"))
    explanation = explained(topic=fenced)
    assert (explanation.leading.cluster, explanation.leading.by) == ("west", "map")
    assert (explanation.moved.state, explanation.moved.operation, explanation.moved.extents) == ("fenced", "op-1", 2)


def test_a_group_with_a_binding_of_its_own_follows_it_and_another_its_user() -> None:
    assert explained("g", "group", bindings=BOUND).leading.by == "group"
    other = explained("h", "group", bindings=BOUND).leading
    assert (other.cluster, other.by) == ("west", "user")
    assert explained("h", "group").leading.by == "default"


def test_rules_that_speak_of_the_user_and_the_name_are_listed_and_no_others() -> None:
    allowed = explained("orders.new", rights=RIGHTS).allowed
    assert allowed.operations == ("read", "describe")
    assert allowed.rules == ("Group:readers: allow read on topic orders (prefixed) from *",)


def test_a_denial_is_listed_with_the_rules_that_it_overrides() -> None:
    allowed = explained("orders.secret", rights=RIGHTS).allowed
    assert "read" not in allowed.operations
    assert [one.split(": ")[1].split()[0] for one in allowed.rules] == ["deny", "allow"]


@pytest.mark.parametrize(("user", "by"), [("root", "super user"), ("nobody", "rules")])
def test_super_user_bypasses_acls_and_unknown_user_is_denied(user: str, by: str) -> None:
    allowed = explained(identity=Identity(user, ""), rights=RIGHTS).allowed
    assert (allowed.by, bool(allowed.operations), allowed.rules) == (by, user == "root", ())
