"""A whole cluster, cut into parts that can move alone."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import Cluster, MoveRequest, Scope, Usage, Use, UserBindings, View
from ha_core.plan.move.closure import closure
from ha_core.plan.move.whole_cluster import identities_at, parts

SINCE = "2026-11-01T00:00:00Z"
REQUEST = MoveRequest(scope=Scope(topics=("-",)), origin="east", target="west", reason="leave")
names = st.sets(st.sampled_from("abcdefgh"), max_size=3)


def usage(user: str, topics: set[str], groups: set[str], instance: str = "") -> Usage:
    use = Use(since=SINCE, how="produce", instance=instance)
    return Usage(user=user, topics=dict.fromkeys(sorted(topics), (use,)), groups=dict.fromkeys(sorted(groups), (use,)))


def view(*bindings: UserBindings, default: bool = True) -> View:
    east = Cluster(name="east", bootstrap="e:1", default=default)
    clusters = {"east": east, "west": Cluster(name="west", bootstrap="w:1", default=not default)}
    return View(clusters=clusters, bindings={user_bindings.user: user_bindings for user_bindings in bindings})


@given(st.dictionaries(st.sampled_from("uvwxyz"), st.tuples(names, names)), names, st.integers(1, 4))
def test_parts_share_nothing_and_are_all_there_is(
    used: dict[str, tuple[set[str], set[str]]], unused: set[str], most: int
) -> None:
    # Given users of a cluster, their usage, and topics without known users
    usages = {user: usage(user, topics, groups) for user, (topics, groups) in used.items()}
    there = {name for topics, _ in used.values() for name in topics} | unused
    # When it is split into parts
    scopes = list(parts(view(), usages, REQUEST, there, most))
    moves = [closure(view(), usages, REQUEST.changed(scope=scope, include_other_users=True)) for scope in scopes]
    # Then no two parts move one thing, and every user and topic moves
    keys = [key for one in moves for key in one.moves.reasons]
    assert len(keys) == len(set(keys))
    assert {key[6:] for key in keys if key.startswith("topic:")} == there
    assert [one.other_users for one in moves] == [()] * len(moves)
    assert [one.shared_groups for one in moves] == [()] * len(moves)
    users = [user for scope in scopes for user in scope.users]
    assert sorted(users) == sorted(usages)


def test_small_parts_move_together_and_first() -> None:
    usages = {
        "large": usage("large", {"a", "b", "c", "d"}, {"g"}),
        "one": usage("one", {"e"}, set()),
        "two": usage("two", {"f"}, set()),
    }

    scopes = list(parts(view(), usages, REQUEST, set("abcdef"), max_per_move=2))

    assert [scope.users for scope in scopes] == [("one", "two"), ("large",)]


def test_finer_bindings_move_with_their_users() -> None:
    bound = UserBindings(
        user="u", cluster="west", instances={"i": "east"}, topics={"t": "east", "w": "west"}, groups={"g": "east"}
    )

    assert identities_at(view(bound), {}, "east") == Scope(
        instances=(("u", "i"),), user_topics=(("u", "t"),), user_groups=(("u", "g"),)
    )
    assert identities_at(view(bound), {}, "west").users == ("u",)


def test_super_users_are_left_where_they_are() -> None:
    usages = {"u": usage("u", {"a"}, set()), "root": usage("root", {"a", "b"}, set())}
    state = view(UserBindings(user="root", cluster="east", groups={"g": "east"}))
    clusters = {**state.clusters, "east": state.clusters["east"].changed(super_users=("root",))}

    assert identities_at(replace(state, clusters=clusters), usages, "east") == Scope(users=("u",))


def test_moved_users_and_topics_are_not_in_any_part() -> None:
    usages = {"u": usage("u", {"a"}, set()), "v": usage("v", {"b"}, set())}
    moved = UserBindings(user="u", cluster="west")

    (left,) = parts(view(moved), usages, REQUEST, {"b"}, 10)

    assert (left.users, left.topics) == (("v",), ("b",))
