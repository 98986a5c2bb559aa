"""Uses of topics and groups are reported again while they last, so that recent use is known."""

from typing import Any

import pytest

from gateway.session.commands import CheckTopicExists, Saw
from gateway.session.seen_uses import MADE_WITHIN_S, MAX_MISSING, SEEN_AGAIN_S
from gateway.session.snapshot import Port
from ha_core.model import ANONYMOUS, UserBindings, View
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, PRODUCE, fetch, fetched, moved, produce, produced, state
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk, snapshot, topology

HEARTBEAT = 12
BEATS: dict[str, Any] = {"group_id": "billing", "generation_id": 1, "member_id": "m", "group_instance_id": None}


def uses(talk: Talk) -> list[tuple[str, str]]:
    """Uses reported since the last call."""
    told = [(one.name, one.how) for one in talk.others if isinstance(one, Saw)]
    talk.others.clear()
    return told


def writes(talk: Talk, topic: str = "orders") -> None:
    talk.ask(PRODUCE, 7, produce((topic, 0, batch(0))))
    for asked in talk.asked(EAST):
        talk.answer(EAST, asked, produced((topic, 0, 0, 0)))
    talk.answers()


@pytest.mark.parametrize("fast", [False, True])
def test_a_connection_that_stays_open_reports_its_uses_again_some_hours_later(fast: bool) -> None:
    talk = Talk(state(), fast=fast)
    writes(talk)
    assert uses(talk) == [("orders", "produce")]
    # Within some hours it is not reported again
    for _ in range(5):
        talk.now += SEEN_AGAIN_S / 6
        writes(talk)
    assert uses(talk) == []
    # And after them once
    talk.now += SEEN_AGAIN_S / 6
    writes(talk)
    writes(talk)
    assert uses(talk) == [("orders", "produce")]


@pytest.mark.parametrize("fast", [False, True])
def test_topics_of_a_fetch_session_are_reported_again_although_its_fetches_do_not_name_them(fast: bool) -> None:
    talk = Talk(state(moved(100, 7)), Port("west", 1), fast=fast)
    talk.ask(FETCH, 12, fetch(("orders", 0, 110), session=(0, 0)))
    for epoch in range(1, 4):
        for asked in talk.asked(WEST):
            talk.answer(WEST, asked, fetched(session_id=5))
        talk.now += SEEN_AGAIN_S / 2
        talk.ask(FETCH, 12, fetch(session=(5, epoch)))

    assert uses(talk) == [("orders", "fetch")] * 2


def existence_checks(talk: Talk) -> list[tuple[str, str]]:
    """Topics whose existence the gateway was made to check."""
    return [(command.cluster, command.topic) for command in talk.others if isinstance(command, CheckTopicExists)]


def test_a_topic_created_a_moment_ago_is_reported_once_the_gateway_knows_it_although_no_request_follows() -> None:
    # Given a producer at a broker's port that writes to a topic which the gateway has not seen yet
    talk = Talk(snapshot(found=topology(east={"orders": {0: 1}})), Port("east", 1))
    for _ in range(2):
        talk.ask(PRODUCE, 7, produce(("new", 0, batch(0))))
    # Then the gateway looks it up once
    assert existence_checks(talk) == [("east", "new")]
    assert uses(talk) == []
    # And reports it once when it has found it
    for _ in range(2):
        talk.follow(snapshot(found=topology(east={"orders": {0: 1}, "new": {0: 1}})))
    assert uses(talk) == [("new", "produce")]


def test_a_missing_topic_is_not_used_until_it_is_created_and_looked_up_again_after_a_while() -> None:
    talk = Talk(snapshot(found=topology(east={"orders": {0: 1}})), Port("east", 1))
    for _ in range(2):
        talk.ask(FETCH, 4, fetch(("made-up", 0, 0)))
        assert existence_checks(talk) == [("east", "made-up")]
        assert uses(talk) == []
        talk.now += MADE_WITHIN_S
    talk.follow(snapshot(found=topology(east={"orders": {0: 1}, "made-up": {0: 1}})))
    assert uses(talk) == [("made-up", "fetch")]


def test_a_missing_topic_is_reported_although_its_cluster_was_away_for_a_while() -> None:
    talk = Talk(snapshot(found=topology(east={"orders": {0: 1}})), Port("east", 1))
    talk.ask(PRODUCE, 7, produce(("new", 0, batch(0))))
    talk.now += 2 * MADE_WITHIN_S
    writes(talk)
    talk.others.clear()
    talk.follow(snapshot(found=topology(east={"orders": {0: 1}, "new": {0: 1}})))
    assert uses(talk) == [("new", "produce")]


def test_names_that_no_topic_can_have_are_not_looked_up() -> None:
    talk = Talk(snapshot(found=topology(east={"orders": {0: 1}})), Port("east", 1))
    for name in ("a b", "x" * 250, "é", ".."):
        talk.ask(FETCH, 4, fetch((name, 0, 0)))
    assert existence_checks(talk) == []


def test_a_connection_that_makes_up_topics_has_few_of_them_looked_up() -> None:
    talk = Talk(snapshot(found=topology(east={"orders": {0: 1}})), Port("east", 1))
    for number in range(3 * MAX_MISSING):
        talk.ask(FETCH, 4, fetch((f"made-up-{number}", 0, 0)))
    assert len(existence_checks(talk)) == MAX_MISSING


def test_a_member_that_never_commits_is_seen_by_its_heartbeats() -> None:
    groups = {"__consumer_offsets": dict.fromkeys(range(50), 1), "orders": {0: 1}}
    talk = Talk(snapshot(found=topology(east=groups)))
    for hours in (0.0, 1.0, 6.0):
        talk.now += hours * 3600
        talk.ask(HEARTBEAT, 3, BEATS)
        for asked in talk.asked(EAST):
            talk.answer(EAST, asked, {"error_code": int(ErrorCode.NONE), "throttle_time_ms": 0})

    assert uses(talk) == [("billing", "join"), ("billing", "join")]


def test_usage_is_recorded_for_the_instance_without_the_variable_parts_of_its_id() -> None:
    bindings = UserBindings(user=ANONYMOUS, client_ids=("streams",))
    talk = Talk(snapshot(View(1, CLUSTERS, {ANONYMOUS: bindings}), topology(east={"orders": {0: 1}})))

    talk.ask(FETCH, 4, fetch(("orders", 0, 0)), client_id="till-StreamThread-1-consumer")

    assert [one.identity for one in talk.others if isinstance(one, Saw)] == [(ANONYMOUS, "till", None)]
