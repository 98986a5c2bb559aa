"""To switch a topic, its user's instance moves if a binding of the instance would hold, else the whole user moves."""

import pytest

from ha_core.model import Scope, Usage, Use, UserBindings
from ha_core.plan.move.users import choose

NOW = "2026-06-01T00:00:00Z"
LAST_WEEK, TODAY = "2026-05-20T00:00:00Z", "2026-05-31T20:00:00Z"
BINDINGS = UserBindings(user="alice", cluster="east")
ALICE = Scope(users=("alice",))


def use(instance: str, how: str = "produce", last: str | None = TODAY) -> Use:
    return Use.model_validate({"instance": instance, "how": how, "since": LAST_WEEK, "last": last})


def of_alice(*uses: Use, **others: tuple[Use, ...]) -> dict[str, Usage]:
    return {"alice": Usage(user="alice", topics={"orders": uses, **others}), "bob": Usage(user="bob")}


def test_only_the_instance_that_uses_the_topic_is_chosen() -> None:
    usage = of_alice(use("till"), use("till", "fetch"), audit=(use("books"),))

    chosen = choose(BINDINGS, "orders", usage, NOW)

    assert chosen.scope == Scope(instances=(("alice", "till"),))
    assert chosen.reason == "orders is used by alice+till, and by no other instance of alice"


def test_all_instances_that_use_the_topic_are_chosen_because_it_has_one_writer() -> None:
    chosen = choose(BINDINGS, "orders", of_alice(use("till"), use("books", "declared", None)), NOW)

    assert chosen.scope == Scope(instances=(("alice", "books"), ("alice", "till")))


@pytest.mark.parametrize(
    ("usage", "why"),
    [
        ({}, "no instance of alice is known to use orders"),
        (of_alice(audit=(use("books"),)), "no instance of alice is known to use orders"),
        (of_alice(use("till"), use("", "fetch")), "no client id"),
        (of_alice(use("till"), use("", "declared", None)), "declared without one"),
        (of_alice(use("till"), *(use(f"job-{n}", last=LAST_WEEK) for n in range(6))), "at each start (job-*)"),
    ],
    ids=["unknown user", "another topic", "without a client id", "declared for the user", "ids made anew"],
)
def test_the_whole_user_is_chosen_if_no_binding_of_an_instance_would_hold(usage: dict[str, Usage], why: str) -> None:
    chosen = choose(BINDINGS, "orders", usage, NOW)

    assert chosen.scope == ALICE
    assert why in chosen.reason


def test_all_numbered_instances_of_a_stable_pool_are_chosen() -> None:
    chosen = choose(BINDINGS, "orders", of_alice(*(use(f"pod-{n}") for n in range(8))), NOW)

    assert [instance for _, instance in chosen.scope.instances] == [f"pod-{n}" for n in range(8)]


def test_client_ids_of_a_known_form_are_one_instance_across_restarts() -> None:
    starts = [f"till-0b5fa0f2-2b6e-4a5c-8a0e-3f0c5b8f2d1{n}-StreamThread-{n}-producer" for n in range(8)]
    usage = of_alice(*(use(one, last=LAST_WEEK) for one in starts))

    assert choose(BINDINGS, "orders", usage, NOW).scope == ALICE
    chosen = choose(BINDINGS.changed(client_ids=("streams",)), "orders", usage, NOW)

    assert chosen.scope == Scope(instances=(("alice", "till"),))
