import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import Scope
from ha_core.operations.clusters import registered
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.proposal.requests import chosen_scope, parse_scope

names = st.text(min_size=1, max_size=20).filter(lambda text: text == text.strip())


def test_every_form_of_a_scope_entry_is_parsed() -> None:
    scope = parse_scope(["user:alice", "user:bob+app-1", "user:carol#orders", "user:carol##billing", "topic:events"])

    assert scope == Scope(
        users=("alice",),
        instances=(("bob", "app-1"),),
        user_topics=(("carol", "orders"),),
        user_groups=(("carol", "billing"),),
        topics=("events",),
    )


def test_an_instance_may_itself_be_an_ha_client_id() -> None:
    assert parse_scope(["user:alice+HA#alice#orders"]).instances == (("alice", "HA#alice#orders"),)


def test_a_topic_in_the_scope_is_resolved_to_the_instances_that_use_it_with_the_reason(
    environment: Environment,
) -> None:
    # Given an instance that uses a topic, and another topic without known users
    registered.declare_usage(environment, "a+b", ("orders",), (), "till#1")
    said: list[str] = []
    environment.progress = said.append
    # When an operator names both topics beside other entries
    entries = chosen_scope(environment, ["user:bob", "user:a%2Bb+#orders", " user:a%2Bb+#audit"])
    # Then the first is resolved to its instance, the second to the whole user
    assert parse_scope(entries) == Scope(users=("bob", "a+b"), instances=(("a+b", "till#1"),))
    assert [line.partition(":")[0] for line in said] == ["user", "user"]
    assert "a+b+till#1" in said[0]
    assert "no instance of a+b is known to use audit" in said[1]


@pytest.mark.parametrize("entry", ["user:alice+#orders", "user:alice+#%23"])
def test_operations_other_than_a_switch_need_instances_by_name(entry: str) -> None:
    with pytest.raises(RefusedError, match=r"user:NAME\+INSTANCE"):
        parse_scope([entry])


def test_a_repeated_scope_entry_counts_once() -> None:
    assert parse_scope(["topic:a", "topic:b", "topic:a"]).topics == ("a", "b")


@pytest.mark.parametrize("entry", ["alice", "user:", "topic:", "group:g", "user:alice#", "user:alice##", "user:+x", ""])
def test_a_malformed_scope_entry_is_refused_with_the_expected_form(entry: str) -> None:
    with pytest.raises(RefusedError, match="user:NAME"):
        parse_scope([entry])


def test_an_empty_scope_is_refused() -> None:
    with pytest.raises(RefusedError, match="empty"):
        parse_scope([])


@given(
    users=st.lists(names, max_size=3, unique=True),
    instances=st.lists(st.tuples(names, names), max_size=3, unique=True),
    topics=st.lists(st.tuples(names, names), max_size=3, unique=True),
    groups=st.lists(st.tuples(names, names), max_size=3, unique=True),
)
def test_a_formatted_scope_is_parsed_back_whatever_its_names(
    users: list[str], instances: list[tuple[str, str]], topics: list[tuple[str, str]], groups: list[tuple[str, str]]
) -> None:
    scope = Scope(
        users=tuple(users),
        instances=tuple(instances),
        user_topics=tuple(topics),
        user_groups=tuple(groups),
        topics=("last",),
    )

    assert parse_scope(scope.entries) == scope


@pytest.mark.parametrize(
    ("entries", "partitions", "written"),
    [
        (["topic:a:3"], {"a": (3,)}, ["topic:a:3"]),
        (["topic:a:7,0,1,2"], {"a": (0, 1, 2, 7)}, ["topic:a:0-2,7"]),
        (["topic:a:4-6", "topic:b", "topic:a:0"], {"a": (0, 4, 5, 6)}, ["topic:a:0,4-6", "topic:b"]),
        (["topic:a:4", "topic:a"], {}, ["topic:a"]),
    ],
)
def test_partitions_of_a_scope_are_given_as_numbers_and_ranges(
    entries: list[str], partitions: dict[str, tuple[int, ...]], written: list[str]
) -> None:
    scope = parse_scope(entries)
    assert scope.partitions == partitions
    assert list(scope.entries) == written


@pytest.mark.parametrize(
    "entry", ["topic:a:", "topic:a:x", "topic:a:1-", "topic:a:5-2", "topic:a:0-100000", "topic::1"]
)
def test_malformed_partitions_of_a_scope_are_refused_with_the_expected_form(entry: str) -> None:
    with pytest.raises(RefusedError, match=r"TOPIC:0,4-7|lower number first"):
        parse_scope([entry])
