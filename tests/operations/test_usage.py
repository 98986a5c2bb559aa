"""Uses are withdrawn by operators, and grow old by themselves."""

import pytest

from ha_core.model import Usage, Use
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.proposal.usage import DAYS_VARIABLE, counts_days, expire_usage, forget_usage, known_usage
from ha_core.store.usage import Sighting
from stack.memory_store import MemoryStore

NOW = "2026-06-01T00:00:00Z"
LAST_YEAR, TODAY, SPRING = "2025-03-01T00:00:00Z", "2026-05-31T20:00:00Z", "2026-04-01T00:00:00Z"


@pytest.fixture
def environment() -> Environment:
    return Environment(MemoryStore(), "test", now=lambda: NOW)


def noted(environment: Environment, user: str, name: str, last: str | None, what: str = "topic", **more: str) -> None:
    fields = {"instance": "app", "how": "fetch", "since": LAST_YEAR, "last": last, **more}
    environment.store.record_usage(user, [Sighting(what, name, Use.model_validate(fields))])  # type: ignore[arg-type]


def stored(environment: Environment, user: str) -> Usage | None:
    return environment.store.usage().get(user)


def test_all_uses_of_a_user_are_withdrawn_and_the_user_is_gone(environment: Environment) -> None:
    noted(environment, "bob", "orders", SPRING)
    noted(environment, "bob", "billing", SPRING, what="group")

    gone = forget_usage(environment, "bob")

    assert [(sighting.what, sighting.name) for sighting in gone] == [("topic", "orders"), ("group", "billing")]
    assert stored(environment, "bob") is None


def test_only_named_uses_are_withdrawn(environment: Environment) -> None:
    for topic in ("orders", "payments"):
        noted(environment, "bob", topic, SPRING)
        noted(environment, "bob", topic, SPRING, instance="other")

    forget_usage(environment, "bob", topics=["orders"], instance="app")

    left = stored(environment, "bob")
    assert left is not None
    assert {name: [use.instance for use in uses] for name, uses in left.topics.items()} == {
        "orders": ["other"],
        "payments": ["app", "other"],
    }


def test_a_dry_run_withdraws_nothing(environment: Environment) -> None:
    noted(environment, "bob", "orders", SPRING)

    assert len(forget_usage(environment, "bob", dry_run=True)) == 1
    assert stored(environment, "bob") is not None


def test_uses_of_a_live_client_are_withdrawn_only_on_demand(environment: Environment) -> None:
    noted(environment, "bob", "orders", TODAY)

    with pytest.raises(RefusedError, match=r"topic orders within a day.*--recent"):
        forget_usage(environment, "bob")
    assert stored(environment, "bob") is not None

    forget_usage(environment, "bob", recent=True)
    assert stored(environment, "bob") is None


@pytest.mark.parametrize("named", [{"topics": ["none"]}, {"groups": ["orders"]}, {"instance": "none"}])
def test_unknown_uses_are_not_withdrawn(environment: Environment, named: dict[str, list[str]]) -> None:
    noted(environment, "bob", "orders", SPRING)

    with pytest.raises(RefusedError, match="No such use of bob"):
        forget_usage(environment, "bob", **named)  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="No use of ann"):
        forget_usage(environment, "ann")


def test_old_uses_are_taken_away_and_those_without_a_time_get_one(environment: Environment) -> None:
    noted(environment, "bob", "old", LAST_YEAR)
    noted(environment, "bob", "new", SPRING)
    noted(environment, "ann", "unknown", None)
    noted(environment, "cid", "declared", None, how="declared")
    noted(environment, "dan", "old", LAST_YEAR)

    assert expire_usage(environment) == 2

    bob, ann, cid = (stored(environment, user) for user in ("bob", "ann", "cid"))
    assert bob is not None
    assert list(bob.topics) == ["new"]
    assert ann is not None
    assert ann.topics["unknown"][0].last == NOW
    assert cid is not None
    assert cid.topics["declared"][0].last is None
    assert stored(environment, "dan") is None
    # And the next look finds nothing to do
    before = environment.store.usage()
    assert expire_usage(environment) == 0
    assert environment.store.usage() == before


def test_how_long_a_use_counts_can_be_set(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    noted(environment, "bob", "orders", SPRING)
    assert set(known_usage(environment).counts) == {"bob"}

    monkeypatch.setenv(DAYS_VARIABLE, "30")

    assert set(known_usage(environment).dormant) == {"bob"}


@pytest.mark.parametrize("said", ["", "0", "-1", "366", "ten", "9" * 5000])
def test_a_number_of_days_that_is_none_is_refused_with_its_name(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DAYS_VARIABLE, said)

    with pytest.raises(RefusedError, match=rf"{DAYS_VARIABLE}=.* from 1 to 365"):
        counts_days()
