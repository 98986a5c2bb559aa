"""Setting local names of remote topics: what is refused, and what the operator is told before."""

import pytest

from ha_core.model import FlowId, UserBindings
from ha_core.operations.access.bindings import apply_bindings, plan_bindings, with_level, with_local_names
from ha_core.operations.access.bindings_file import Declared, DeclaredError, display_levels, parse
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.store.remote_topics import FlowTopics

FLOW = FlowId("A->B", "a-id", "b-id")


@pytest.fixture
def copied(environment: Environment) -> Environment:
    """A flow from A has claimed the copy of `orders`."""
    environment.store.write_remote_topics(FlowTopics(FLOW, {"A.orders": "orders", "mm2-copies.internal": ""}))
    return environment


def named(
    environment: Environment, who: str = "user:alice", alias: str | None = "A", cluster: str | None = None
) -> Declared:
    return with_local_names(environment.store.load(), who, alias, cluster)


def test_local_names_and_the_cluster_are_one_revision(copied: Environment) -> None:
    # Given
    apply_bindings(copied, plan_bindings(copied, with_level(copied.store.load(), "user:alice", "east")))
    before = copied.store.load().revision
    # When
    plan = plan_bindings(copied, named(copied, cluster="west"))
    apply_bindings(copied, plan)
    # Then
    view = copied.store.load()
    assert view.bindings["alice"] == UserBindings(user="alice", cluster="west", local_names="A")
    assert view.revision == before + 1
    assert plan.differences[0].lines() == ("alice: east → west", "alice local names of: (none) → A")


def test_a_source_that_no_known_flow_has_is_refused_with_those_that_are_known(copied: Environment) -> None:
    with pytest.raises(RefusedError, match=r"no flow from 'east' has claimed topics \(sources of known flows: A\)"):
        plan_bindings(copied, named(copied, alias="east"))


def test_local_names_are_of_a_whole_user(copied: Environment) -> None:
    with pytest.raises(RefusedError, match="apply to the whole user"):
        named(copied, "user:alice+billing-1")


def test_local_names_that_are_not_set_cannot_be_removed(copied: Environment) -> None:
    with pytest.raises(RefusedError, match="by their own names"):
        named(copied, alias=None)


def test_removed_local_names_leave_the_binding(copied: Environment) -> None:
    apply_bindings(copied, plan_bindings(copied, named(copied, cluster="west")))
    apply_bindings(copied, plan_bindings(copied, named(copied, alias=None)))

    assert copied.store.load().bindings["alice"] == UserBindings(user="alice", cluster="west")


def test_a_cluster_that_does_not_answer_is_named_since_its_topics_are_not_known(copied: Environment) -> None:
    (warning,) = plan_bindings(copied, named(copied, cluster="west")).warnings

    assert warning.startswith("west is not looked at, so topics of its own that would be hidden are not known: ")


def test_a_binding_that_leads_a_user_with_local_names_elsewhere_is_looked_at_too(copied: Environment) -> None:
    apply_bindings(copied, plan_bindings(copied, named(copied, cluster="west")))

    back = plan_bindings(copied, with_level(copied.store.load(), "user:alice", "east"))

    assert any("east is not looked at" in warning for warning in back.warnings)


def test_a_declaration_has_local_names() -> None:
    declared = parse("bindings: {alice: {cluster: west, local_names: A}}", "f").bindings["alice"]

    assert display_levels(declared) == {"alice": "west", "alice local names of": "A"}
    with pytest.raises(DeclaredError, match="local_names"):
        parse("bindings: {alice: {local_names: ''}}", "f")
