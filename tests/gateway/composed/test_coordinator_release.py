"""A producer drops a dead gateway as coordinator, and no other producer is disturbed for long."""

import tracemalloc
from dataclasses import dataclass

import pytest

from gateway.composed.coordinator_release import ECHO_S, LASTS_S, MAX_OF_USER, MAX_REMEMBERED, CoordinatorRelease

RETRY_S = 0.5
"""Time after which librdkafka asks for its coordinator (`rd_kafka_txn_coord_timer_start`)."""
PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
"""`reconnect.backoff.ms` and `reconnect.backoff.max.ms`."""


@dataclass
class Librdkafka:
    """librdkafka's transactional producer, as far as it looks for its coordinator, which keeps its node id.

    It dials the address that METADATA gave for the node before it last had no coordinator. Whenever that connection
    ends, also for a new address, it asks half a second later.
    """

    coordinator_release: CoordinatorRelease
    lives: set[str]
    node_at: str
    """As gateways report."""
    metadata: str = ""
    """As the producer last heard."""
    at: str | None = None
    asks: float | None = None
    dials: float | None = None
    pause_s: float = PAUSE_S
    asked: int = 0

    def up(self) -> bool:
        return self.at in self.lives and self.dials is None

    def end(self, now: float) -> None:
        """Its connection has ended."""
        self.asks = now + RETRY_S if self.asks is None else self.asks
        self.dials, self.pause_s = (None if self.at is None else now + self.pause_s), PAUSE_S

    def go_on(self, now: float) -> None:
        if self.dials is not None and now >= self.dials:
            self.dials = None
            if self.at not in self.lives:
                self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)
                self.dials, self.asks = now + self.pause_s, self.asks or now + RETRY_S
        if self.asks is not None and now >= self.asks:
            self._ask(now)

    def _ask(self, now: float) -> None:
        self.asks, self.asked = None, self.asked + 1
        if self.coordinator_release.sends_away("app", "t", now):
            # It does not know the node.
            self.at, self.dials, self.asks, self.metadata = None, None, now + RETRY_S, self.node_at
        elif self.at is None:
            self.at = self.metadata
            self.end(now)


def play(producer: Librdkafka, begins: float, lasts_s: float) -> float | None:
    """Time from which it was up for good; None: it is down at the end."""
    since: float | None = None
    for step in range(round(lasts_s * 20)):
        now = begins + step / 20
        producer.go_on(now)
        since = (now if since is None else since) if producer.up() else None
    return since


def at_a_gateway(coordinator_release: CoordinatorRelease) -> Librdkafka:
    producer = Librdkafka(coordinator_release, {"a", "b", "c"}, node_at="a", metadata="a")
    producer.end(0.0)
    assert play(producer, 0.0, 10.0) is not None
    return producer


def killed(producer: Librdkafka, now: float, other: str) -> None:
    """Kills its gateway; no request of its own makes it ask for METADATA."""
    producer.lives.discard(producer.node_at)
    producer.node_at = other
    producer.end(now)


def test_without_an_unknown_node_it_stays_at_the_dead_gateway() -> None:
    producer = at_a_gateway(CoordinatorRelease())
    killed(producer, 10.0, other="b")
    assert play(producer, 10.0, 120.0) is None
    # Even if it has heard of the other gateway
    producer.metadata = "b"
    assert play(producer, 130.0, 120.0) is None


def test_it_continues_at_the_other_gateway_within_two_seconds_and_is_not_disturbed_again() -> None:
    # Given
    producer = at_a_gateway(CoordinatorRelease())
    asked = producer.asked
    # When
    killed(producer, 10.0, other="b")
    producer.coordinator_release.gone(10.0)
    # Then
    up_at = play(producer, 10.0, LASTS_S)
    assert up_at is not None
    assert up_at - 10.0 <= 2.0
    # Sent away, answered, and the repeated question
    assert producer.asked == asked + 3


def test_it_continues_soon_after_a_late_notice_of_the_death() -> None:
    producer = at_a_gateway(CoordinatorRelease())
    killed(producer, 10.0, other="b")
    assert play(producer, 10.0, 3.0) is None
    producer.coordinator_release.gone(13.0)
    up_at = play(producer, 13.0, 60.0)
    assert up_at is not None
    assert up_at - 13.0 <= 5.0


def test_it_drops_a_second_dead_gateway_like_the_first() -> None:
    producer = at_a_gateway(CoordinatorRelease())
    killed(producer, 10.0, other="b")
    producer.coordinator_release.gone(10.0)
    assert play(producer, 10.0, 3.0) is not None
    killed(producer, 13.0, other="c")
    producer.coordinator_release.gone(13.0)
    up_at = play(producer, 13.0, 60.0)
    assert up_at is not None
    assert up_at - 13.0 <= 2.0


def test_a_producer_that_begins_after_a_gateway_has_gone_is_sent_away_only_once() -> None:
    coordinator_release = CoordinatorRelease()
    coordinator_release.gone(0.0)
    producer = Librdkafka(coordinator_release, {"a"}, node_at="a", metadata="a")
    producer.end(1.0)
    assert play(producer, 1.0, LASTS_S) is not None
    assert producer.asked == 3


def test_no_producer_is_sent_away_before_or_long_after_a_gateway_has_gone() -> None:
    coordinator_release = CoordinatorRelease()
    assert not coordinator_release.sends_away("app", "t", 0.0)
    coordinator_release.gone(1.0)
    assert not coordinator_release.sends_away("app", "t", 1.0 + LASTS_S)


@pytest.mark.parametrize("pause_s", [0.02, 0.1, ECHO_S / 2])
def test_a_producer_that_asks_again_soon_gets_the_coordinator(pause_s: float) -> None:
    coordinator_release = CoordinatorRelease()
    coordinator_release.gone(0.0)
    assert [coordinator_release.sends_away("app", "t", pause_s * n) for n in range(3)] == [True, False, False]


def test_users_have_their_own_transactional_ids() -> None:
    coordinator_release = CoordinatorRelease()
    coordinator_release.gone(0.0)
    assert coordinator_release.sends_away("app", "t", 0.0)
    assert coordinator_release.sends_away("other", "t", 0.0)


def test_a_user_who_makes_up_ids_takes_no_room_from_others_and_little_memory() -> None:
    # Given one user with more ids than are remembered per user, each as long as an id may be
    coordinator_release = CoordinatorRelease()
    coordinator_release.gone(0.0)
    tracemalloc.start()
    away = [coordinator_release.sends_away("app", f"{n}".rjust(30_000, "t"), 0.0) for n in range(MAX_OF_USER + 10)]
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert away == [True] * MAX_OF_USER + [False] * 10
    assert kept < 5_000_000
    # Then another user's producers drop the dead gateway
    assert coordinator_release.sends_away("other", "t", 0.0)


def test_ids_of_many_users_are_remembered_up_to_a_bound() -> None:
    coordinator_release = CoordinatorRelease()
    coordinator_release.gone(0.0)
    away = [coordinator_release.sends_away(f"app-{n % 20}", f"t-{n}", 0.0) for n in range(MAX_REMEMBERED + 10)]
    assert away == [True] * MAX_REMEMBERED + [False] * 10
