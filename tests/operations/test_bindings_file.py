import pytest

from ha_core.model import UserBindings
from ha_core.operations.access.bindings_file import DeclaredError, compare, parse

DECLARED = """
bindings:
  alice:
    cluster: east
    instances: {app-1: west}
    topics: {orders: west}
    groups: {billing: west}
  bob: {}
  carol:
"""


def test_a_declaration_has_cluster_instance_topic_and_group_bindings() -> None:
    # When a declaration with all four levels is read
    declared = parse(DECLARED, "bindings.yaml")
    # Then each user has its bindings, and users without any are there too
    assert declared.bindings["alice"] == UserBindings(
        user="alice",
        cluster="east",
        instances={"app-1": "west"},
        topics={"orders": "west"},
        groups={"billing": "west"},
    )
    assert declared.bindings["bob"].empty
    assert declared.bindings["carol"].empty
    assert not declared.complete


def test_comparing_a_declaration_lists_only_differences_with_before_and_after() -> None:
    # Given a user with other bindings, one who is to lose his, and one who is not declared
    stored = {
        "alice": UserBindings(user="alice", cluster="east", instances={"app-1": "east"}, groups={"old": "east"}),
        "bob": UserBindings(user="bob", cluster="west"),
        "dave": UserBindings(user="dave", cluster="west"),
    }
    # When the declaration is compared
    differences = compare(parse(DECLARED, "f"), stored)
    # Then the first two differ
    assert [d.user for d in differences] == ["alice", "bob"]
    assert differences[0].lines() == (
        "alice+app-1: east → west",
        "alice##old: east → (none)",
        "alice#orders: (none) → west",
        "alice##billing: (none) → west",
    )
    assert differences[1].after is None


def test_a_complete_declaration_removes_users_that_it_does_not_name() -> None:
    stored = {"dave": UserBindings(user="dave", cluster="west")}

    differences = compare(parse("complete: true\nbindings: {alice: {cluster: east}}", "f"), stored)

    assert [(d.user, d.after is None) for d in differences] == [("alice", False), ("dave", True)]


def test_a_declaration_that_is_already_applied_has_no_differences() -> None:
    declared = parse(DECLARED, "f")

    assert compare(declared, {"alice": declared.bindings["alice"]}) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bindings: [", "not YAML"),
        ("alice: {}", "bindings"),
        ("bindings: {alice: {clutser: east}}", "bindings.alice.clutser"),
        ("bindings: {alice: {cluster: [east]}}", "bindings.alice.cluster"),
        ("bindings: {'': {cluster: east}}", "user"),
        ("[]", "the document"),
    ],
)
def test_an_unreadable_declaration_is_an_error_that_names_the_file_and_the_key(text: str, words: str) -> None:
    with pytest.raises(DeclaredError) as caught:
        parse(text, "team.yaml")

    assert "team.yaml" in str(caught.value)
    assert words in str(caught.value)


def test_forms_of_client_ids_are_declared_and_compared_with_the_bindings_of_their_user() -> None:
    declared = parse("bindings: {alice: {cluster: east, client_ids: [streams]}}", "f")

    (difference,) = compare(declared, {"alice": UserBindings(user="alice", cluster="east")})

    assert difference.lines() == ("alice client ids: (none) → streams",)
    assert difference.after == UserBindings(user="alice", cluster="east", client_ids=("streams",))
    assert compare(declared, {"alice": difference.after}) == ()
