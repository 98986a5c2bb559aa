"""Uses that are too old are no sign of current users."""

from dataclasses import replace

import pytest

from ha_core.model import Usage, Use
from ha_core.plan.access.usage_age import Churn, churning, split
from ha_core.plan.move.closure import closure
from ha_core.plan.preflight.scope import dormant
from tests.plan.preflight_case import SOUND

NOW = "2026-06-01T00:00:00Z"
LAST_YEAR, TODAY = "2025-06-01T00:00:00Z", "2026-05-31T20:00:00+00:00"


def used(user: str, last: str | None, how: str = "fetch", topic: str = "orders", instance: str = "app") -> Usage:
    use = Use.model_validate({"instance": instance, "how": how, "since": LAST_YEAR, "last": last})
    return Usage(user=user, topics={topic: (use,)})


@pytest.mark.parametrize(
    ("last", "how", "counts"),
    [
        (TODAY, "fetch", True),
        ("2026-02-22T00:00:00Z", "fetch", True),
        ("2026-02-20T00:00:00Z", "fetch", False),
        (LAST_YEAR, "produce", False),
        (LAST_YEAR, "declared", True),
        (None, "fetch", True),
        ("no time", "fetch", True),
        ("2027-01-01T00:00:00Z", "fetch", True),
    ],
    ids=["today", "a quarter ago", "longer ago", "last year", "declared", "unknown", "unreadable", "to come"],
)
def test_a_use_counts_unless_it_was_seen_and_that_is_long_ago(last: str | None, how: str, counts: bool) -> None:
    usage = {"bob": used("bob", last, how)}

    found = split(usage, NOW)

    assert (found.counts, found.dormant) == ((usage, {}) if counts else ({}, usage))


def test_each_use_of_a_user_is_judged_by_itself() -> None:
    old, new = used("bob", LAST_YEAR, topic="old"), used("bob", TODAY, topic="new")
    both = Usage(user="bob", topics={**old.topics, **new.topics})

    assert split({"bob": both}, NOW) == ({"bob": new}, {"bob": old})


def test_a_request_of_last_year_neither_pulls_a_topic_into_a_move_nor_holds_it_up() -> None:
    # Given one old use of alice's topic by bob, and one of another topic by alice
    alice = SOUND.usage[0]
    stray = used("alice", LAST_YEAR, topic="payments").topics
    usage = {"alice": alice.changed(topics={**alice.topics, **stray}), "bob": used("bob", LAST_YEAR)}
    # When alice moves
    view = SOUND.judged().view
    found = closure(view, split(usage, NOW).counts, SOUND.judged().request)
    # Then her topic moves alone, and bob is none of its users
    assert found.moves.topics == ("orders",)
    assert found.other_users == ()


def test_dormant_uses_are_reported() -> None:
    bob, alice = used("bob", LAST_YEAR), used("alice", LAST_YEAR, topic="payments")
    case = replace(SOUND.judged(), dormant={"bob": bob, "alice": alice})

    verdicts = {verdict.about: verdict for verdict in dormant(case)}

    assert {(verdict.level, verdict.code, verdict.number) for verdict in verdicts.values()} == {
        ("warning", "dormant-use", 1)
    }
    assert "topic orders" in verdicts["user bob"].text
    assert "does not refuse the move" in verdicts["user bob"].text
    assert "topic payments" in verdicts["user alice"].text
    assert "They do not move." in verdicts["user alice"].text


def pool(count: int, live: int) -> Usage:
    uses = [
        Use(instance=f"app-{n}", how="fetch", since=LAST_YEAR, last=TODAY if n < live else "2026-05-20T00:00:00Z")
        for n in range(count)
    ]
    return Usage(user="bob", topics={"orders": tuple(uses)})


def test_client_ids_that_change_at_each_start_are_reported() -> None:
    assert list(churning({"bob": pool(8, live=1)}, NOW)) == [Churn("bob", "topic orders", "app-*", 8)]


@pytest.mark.parametrize(("count", "live"), [(8, 8), (4, 0), (8, 5)])
def test_a_pool_of_numbered_clients_is_not_taken_for_one_client_with_many_ids(count: int, live: int) -> None:
    assert list(churning({"bob": pool(count, live)}, NOW)) == []


@pytest.mark.parametrize(
    ("instance", "family"),
    [
        ("app-17", "app-*"),
        ("consumer-orders-1-0b5fa0f2-2b6e-4a5c-8a0e-3f0c5b8f2d11", "consumer-orders-*-*"),
        ("worker-deadbeef01", "worker-*"),
        ("facade", "facade"),
        ("deadbeefdead", "deadbeefdead"),
        ("", ""),
    ],
)
def test_a_family_is_the_common_pattern_of_ids_that_change_at_each_start(instance: str, family: str) -> None:
    assert Use(instance=instance, how="fetch", since=NOW).family == family
