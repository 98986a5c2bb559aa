from typing import Literal

from ha_core.model import MoveRequest, Scope, Usage, Use, UserBindings, View
from ha_core.plan.move.closure import Closure, OtherUser, closure

How = Literal["produce", "fetch", "commit", "join", "declared"]


def use(instance: str = "", how: How = "produce", since: str = "2026-01-01T00:00:00Z") -> Use:
    return Use(instance=instance, how=how, since=since)


def usage_of(user: str, topics: dict[str, list[Use]], groups: dict[str, list[Use]] | None = None) -> Usage:
    return Usage(
        user=user,
        topics={name: tuple(uses) for name, uses in topics.items()},
        groups={name: tuple(uses) for name, uses in (groups or {}).items()},
    )


def close(scope: Scope, *usages: Usage, bindings: tuple[UserBindings, ...] = ()) -> Closure:
    view = View(bindings={b.user: b for b in bindings})
    request = MoveRequest(scope=scope, origin="east", target="west", reason="test")
    return closure(view, {u.user: u for u in usages}, request)


ALICE = usage_of(
    "alice",
    {"orders": [use("app-1"), use("app-2", "fetch")], "audit": [use("app-2")], "plans": [use(how="declared")]},
    {"billing": [use("app-2", "join")], "etl": [use("app-1", "join")]},
)


def test_a_user_takes_along_all_topics_and_groups_that_it_uses_declared_or_seen() -> None:
    found = close(Scope(users=("alice",)), ALICE)

    assert found.moves.topics == ("audit", "orders", "plans")
    assert found.moves.groups == ("billing", "etl")
    assert found.other_users == ()
    assert found.shared_groups == ()


def test_every_topic_and_group_says_why_it_moves() -> None:
    # When a scope with users, topics and groups is closed
    found = close(
        Scope(users=("alice",), user_topics=(("bob", "inbox"),), user_groups=(("bob", "mail"),), topics=("raw",)), ALICE
    )
    # Then each item has its reason
    assert set(found.moves.reasons) == {
        *(f"topic:{t}" for t in found.moves.topics),
        *(f"group:{g}" for g in found.moves.groups),
    }
    assert found.moves.reasons["topic:plans"] == "user alice uses it (declared since 2026-01-01T00:00:00Z)"
    assert found.moves.reasons["group:etl"] == "user alice uses it (join since 2026-01-01T00:00:00Z, as app-1)"
    assert found.moves.reasons["topic:inbox"] == "bob#inbox is in the scope"
    assert found.moves.reasons["group:mail"] == "bob##mail is in the scope"
    assert found.moves.reasons["topic:raw"] == "named in the scope"


def test_an_instance_takes_along_only_its_own_topics_and_other_instances_stay_outside() -> None:
    found = close(Scope(instances=(("alice", "app-1"),)), ALICE)

    assert found.moves.topics == ("orders",)
    assert found.moves.groups == ("etl",)
    assert found.other_users == (OtherUser("orders", "alice", "app-2", "2026-01-01T00:00:00Z"),)


def test_a_fine_bound_topic_or_group_is_not_pulled_in_by_its_user() -> None:
    bound = UserBindings(user="alice", topics={"audit": "east"}, groups={"etl": "east"})

    found = close(Scope(users=("alice",)), ALICE, bindings=(bound,))

    assert found.moves.topics == ("orders", "plans")
    assert found.moves.groups == ("billing",)


def test_a_fine_bound_topic_is_not_pulled_in_by_an_instance() -> None:
    bound = UserBindings(user="alice", topics={"audit": "east"})

    found = close(Scope(instances=(("alice", "app-2"),)), ALICE, bindings=(bound,))

    assert found.moves.topics == ("orders",)


def test_moving_a_fine_bound_topic_pulls_in_nothing_else() -> None:
    bound = UserBindings(user="alice", topics={"audit": "east"})

    found = close(Scope(user_topics=(("alice", "audit"),)), ALICE, bindings=(bound,))

    assert found.moves.topics == ("audit",)
    assert found.moves.groups == ()
    assert found.other_users == ()


def test_a_group_of_a_user_moves_without_the_topics_of_its_members() -> None:
    found = close(Scope(user_groups=(("alice", "etl"),)), ALICE)

    assert found.moves.topics == ()
    assert found.moves.groups == ("etl",)


def test_a_topic_moves_alone_and_every_user_of_it_is_outside_of_the_scope() -> None:
    found = close(Scope(topics=("orders",)), ALICE)

    assert found.moves.topics == ("orders",)
    assert found.moves.groups == ()
    assert [(s.user, s.instance) for s in found.other_users] == [("alice", "app-1"), ("alice", "app-2")]


def test_users_outside_of_the_scope_are_named_with_their_first_use() -> None:
    # Given another user who has fetched, and had produced before
    bob = usage_of(
        "bob",
        {
            "orders": [use("b", "fetch", "2026-03-01T00:00:00Z"), use("b", "produce", "2026-02-01T00:00:00Z")],
            "x": [use()],
        },
    )
    # When the scope is closed
    found = close(Scope(users=("alice",)), ALICE, bob)
    # Then he is named with the earlier use
    assert found.other_users == (OtherUser("orders", "bob", "b", "2026-02-01T00:00:00Z"),)


def test_an_instance_with_a_binding_of_its_own_stays_when_its_user_moves() -> None:
    bound = UserBindings(user="alice", instances={"app-2": "east"})

    found = close(Scope(users=("alice",)), ALICE, bindings=(bound,))

    assert found.moves.topics == ("orders", "plans")
    assert found.moves.groups == ("etl",)
    assert [(s.name, s.instance) for s in found.other_users] == [("orders", "app-2")]


def test_an_instance_with_a_binding_of_its_own_moves_when_the_scope_names_it() -> None:
    bound = UserBindings(user="alice", instances={"app-2": "east"})

    found = close(Scope(users=("alice",), instances=(("alice", "app-2"),)), ALICE, bindings=(bound,))

    assert found.moves.topics == ("audit", "orders", "plans")
    assert found.other_users == ()


def test_a_user_with_a_fine_binding_of_a_topic_that_another_user_takes_along_is_outside() -> None:
    bob = usage_of("bob", {"orders": [use("b")]})
    bound = UserBindings(user="bob", topics={"orders": "east"})

    found = close(Scope(users=("alice", "bob")), ALICE, bob, bindings=(bound,))

    assert [(s.name, s.user) for s in found.other_users] == [("orders", "bob")]


def test_a_group_with_members_of_a_staying_user_is_shared() -> None:
    bob = usage_of("bob", {}, {"etl": [use("b", "join"), use("b", "commit")]})

    alone = close(Scope(users=("alice",)), ALICE, bob)
    together = close(Scope(users=("alice",), user_groups=(("bob", "etl"),)), ALICE, bob)

    assert alone.shared_groups == (OtherUser("etl", "bob", "b", "2026-01-01T00:00:00Z"),)
    assert together.shared_groups == ()


def test_users_of_the_scope_without_known_usage_are_named() -> None:
    found = close(Scope(users=("alice", "ghost"), instances=(("bound", "i"),)), ALICE)

    assert found.unseen == ("ghost", "bound")


def test_the_closure_keeps_the_users_of_each_topic_and_group() -> None:
    found = close(Scope(users=("alice",)), ALICE)

    assert found.identities("topic:orders") == (("alice", "app-1"), ("alice", "app-2"))
    assert found.identities("topic:nothing") == ()


def test_an_instance_takes_along_topics_seen_before_its_client_ids_had_a_form() -> None:
    used = usage_of("alice", {"orders": [use("till-1"), use("till")], "audit": [use("books-1")]})
    forms = UserBindings(user="alice", client_ids=("{instance}-{number}",))

    found = close(Scope(instances=(("alice", "till"),)), used, bindings=(forms,))

    assert found.moves.topics == ("orders",)
    assert found.other_users == ()
