"""A client that exceeds its rate limit for metadata, coordinators and producer ids is answered later, never refused."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.session.commands import Compose, Delays, Wake
from gateway.session.discovery_rates import (
    EVERYBODY,
    MAX_HOLD_S,
    DiscoveryLimit,
    DiscoveryRates,
    DiscoverySettings,
    DiscoveryWait,
)
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import INIT, PRODUCE
from tests.gateway.session.talk import EAST, Talk

METADATA, FIND, VERSIONS = 3, 10, 18
NO_TOPICS = {"brokers": [], "controller_id": 1, "topics": []}
NAMED = {"alice": 5, EVERYBODY: 50}


def waits(
    rates: DiscoveryRates, count: int, user: str = "bob", address: str = "10.0.0.1"
) -> list[DiscoveryWait | None]:
    """Waits of this many requests at once."""
    return [rates.spend(user, address, 100.0) for _ in range(count)]


def limits(discovery_waits: list[DiscoveryWait | None]) -> set[DiscoveryLimit]:
    return {wait.limit for wait in discovery_waits if wait is not None}


def test_without_settings_no_request_is_counted() -> None:
    rates = DiscoveryRates()
    assert waits(rates, 1000) == [None] * 1000
    assert len(rates) == 0


def test_one_seconds_requests_may_come_at_once_and_the_rest_waits_in_line() -> None:
    discovery_waits = waits(DiscoveryRates(DiscoverySettings(user_rate={EVERYBODY: 10})), 15)
    assert discovery_waits[:10] == [None] * 10
    assert [round(wait.seconds, 3) for wait in discovery_waits[10:] if wait] == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_a_limit_lets_its_rate_through_over_a_minute() -> None:
    # Given a client that asks again as soon as it is answered, with a limit of 20 a second
    rates, now, answered = DiscoveryRates(DiscoverySettings(user_rate={EVERYBODY: 20})), 0.0, 0
    # When it does so for a minute
    while now < 60:
        wait = rates.spend("bob", "10.0.0.1", now)
        now += 0.001 + (wait.seconds if wait else 0.0)
        answered += 1
    # Then
    assert 60 * 20 <= answered <= 61 * 20 + 1


def test_a_named_users_limit_replaces_those_of_its_address_and_the_general_ones() -> None:
    settings = DiscoverySettings(user_rate=NAMED, address_rate={"10.0.0.1": 1, EVERYBODY: 1})
    discovery_waits = waits(DiscoveryRates(settings), 6, "alice")
    assert discovery_waits[:5] == [None] * 5
    assert limits(discovery_waits) == {DiscoveryLimit.NAMED_USER}


def test_a_named_addresss_limit_replaces_the_general_ones() -> None:
    settings = DiscoverySettings(user_rate={EVERYBODY: 1}, address_rate={"10.0.0.1": 5, EVERYBODY: 1})
    discovery_waits = waits(DiscoveryRates(settings), 6)
    assert discovery_waits[:5] == [None] * 5
    assert limits(discovery_waits) == {DiscoveryLimit.NAMED_ADDRESS}


def test_the_longer_wait_of_the_general_limits_counts() -> None:
    of_users = DiscoverySettings(user_rate={EVERYBODY: 5}, address_rate={EVERYBODY: 50})
    of_addresses = DiscoverySettings(user_rate={EVERYBODY: 50}, address_rate={EVERYBODY: 5})
    assert limits(waits(DiscoveryRates(of_users), 7)) == {DiscoveryLimit.USER}
    assert limits(waits(DiscoveryRates(of_addresses), 7)) == {DiscoveryLimit.ADDRESS}


def test_users_of_one_address_share_its_limit_and_other_addresses_have_their_own() -> None:
    rates = DiscoveryRates(DiscoverySettings(address_rate={EVERYBODY: 2}))
    discovery_waits = [rates.spend(f"user-{n}", "10.0.0.1", 100.0) for n in range(4)]
    assert [wait is None for wait in discovery_waits] == [True, True, False, False]
    assert rates.spend("user-9", "10.0.0.2", 100.0) is None


def test_addresses_that_one_host_can_choose_from_share_a_limit() -> None:
    rates = DiscoveryRates(DiscoverySettings(address_rate={EVERYBODY: 2}))
    discovery_waits = [rates.spend("bob", f"2001:db8::{n:x}", 100.0) for n in range(4)]
    assert [wait is None for wait in discovery_waits] == [True, True, False, False]
    assert len(rates) == 1


def test_new_settings_apply_from_the_next_request_on() -> None:
    rates = DiscoveryRates(DiscoverySettings(user_rate={EVERYBODY: 1}))
    assert waits(rates, 2)[1] is not None
    rates.settings = DiscoverySettings(user_rate={EVERYBODY: 1000})
    assert rates.spend("carol", "10.0.0.1", 100.0) is None
    rates.settings = DiscoverySettings()
    assert waits(rates, 100) == [None] * 100


_NAMES = st.text(max_size=5)
_STEPS = st.lists(st.tuples(_NAMES, _NAMES, st.floats(0, 10)), max_size=200)


@given(_STEPS, st.integers(1, 1000), st.integers(1, 1000))
def test_waits_and_memory_are_bounded_for_any_number_of_names(
    steps: list[tuple[str, str, float]], user_rate: int, address_rate: int
) -> None:
    settings = DiscoverySettings(
        user_rate={EVERYBODY: user_rate, "a": 1}, address_rate={EVERYBODY: address_rate, "b": 1}
    )
    rates, now = DiscoveryRates(settings, max_names=20), 0.0
    for user, address, later in steps:
        now += later
        wait = rates.spend(user, address, now)
        assert wait is None or 0 < wait.seconds <= MAX_HOLD_S + 1e-6
        assert len(rates) <= 20


def test_the_least_recently_used_names_are_evicted_first() -> None:
    rates = DiscoveryRates(DiscoverySettings(user_rate={EVERYBODY: 1}), max_names=100)
    waits(rates, 3, "busy")
    for n in range(10_000):
        rates.spend(f"user-{n}", "10.0.0.1", 100.0)
        rates.spend("busy", "10.0.0.1", 100.0)
    assert len(rates) == 100
    assert rates.spend("busy", "10.0.0.1", 100.0) is not None


# -- a connection ------------------------------------------------------------------------------------------------------


def slow(per_s: int = 1) -> Talk:
    return Talk(discovery=DiscoveryRates(DiscoverySettings(user_rate={EVERYBODY: per_s})))


def composed(talk: Talk) -> list[Compose]:
    questions = talk.questions
    talk.others[:] = [command for command in talk.others if not isinstance(command, Compose)]
    return questions


def test_a_question_above_the_limit_is_asked_later_and_its_answer_has_the_delay() -> None:
    # Given a client that may ask once a second, and asks twice
    talk = slow()
    talk.ask(METADATA, 8, {"topics": []})
    (first,) = composed(talk)
    talk.composed(first, NO_TOPICS)
    talk.ask(METADATA, 8, {"topics": []})
    # Then no cluster is asked yet, the client is not read, and a timer stands
    assert composed(talk) == []
    assert talk.session.paused
    assert talk.woken == [101.0]
    assert not talk.session.idle
    # And a second later the cluster is asked, and the answer has the delay
    talk.wait(1.0)
    (second,) = composed(talk)
    talk.composed(second, NO_TOPICS)
    assert [answer["throttle_time_ms"] for answer in talk.answers()] == [0, 1000]
    assert talk.closed is None
    counts = talk.session.context.shared.counts
    assert (counts.discovery_delayed["user"], counts.discovery_delayed_s) == (1, 1.0)
    assert [command for command in talk.others if isinstance(command, Delays)] == [Delays("user", 1)]


def test_a_timer_that_comes_early_asks_nothing() -> None:
    talk = slow()
    for _ in range(2):
        talk.ask(METADATA, 8, {"topics": []})
    composed(talk)
    talk.wait(0.5)
    assert composed(talk) == []
    assert talk.session.next_wakeup() == 101.0


def test_an_encoded_answer_has_the_delay_too() -> None:
    from ha_core.wire import encode

    talk = slow()
    for version in (8, 8, 2):
        talk.ask(METADATA, version, {"topics": [{"name": "a"}]})
        talk.wait(2.0)
        (compose,) = composed(talk)
        body = encode(METADATA, version, "response", NO_TOPICS)
        talk.composed(compose, body)
        talk.now -= 1.9
    assert [answer.get("throttle_time_ms", 0) > 0 for answer in talk.answers()] == [False, True, False]


def test_a_long_request_that_comes_in_pieces_is_held_as_well() -> None:
    talk = Talk(
        chunks=lambda data: [data[:50], data[50:]],
        discovery=DiscoveryRates(DiscoverySettings(user_rate={EVERYBODY: 1})),
    )
    for _ in range(2):
        talk.ask(METADATA, 8, {"topics": [{"name": f"topic-{n}"} for n in range(100)]})
    assert len(composed(talk)) == 1
    talk.wait(1.0)
    assert len(composed(talk)) == 1


def test_producer_ids_and_coordinators_count_and_versions_do_not() -> None:
    # Given a client that has used up its limit
    talk = slow()
    talk.ask(FIND, 2, {"key": "g", "key_type": 0})
    (first,) = composed(talk)
    talk.composed(first, {"error_code": 15, "node_id": -1, "host": "", "port": -1})
    talk.answers()
    # Then versions are returned at once
    talk.ask(VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"})
    assert len(talk.answers()) == 1
    # And a producer id later
    talk.ask(INIT, 1, {"transactional_id": None, "transaction_timeout_ms": 1000})
    assert talk.answers() == []
    talk.wait(1.0)
    (answer,) = talk.answers()
    assert answer["error_code"] == 0
    assert answer["throttle_time_ms"] == 1000


def test_records_after_a_held_question_are_written_after_it() -> None:
    talk = slow()
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": batch()}]}]
    for _ in range(2):
        talk.ask(METADATA, 8, {"topics": []})
    talk.ask(PRODUCE, 7, {"acks": 1, "timeout_ms": 1000, "topic_data": data})
    assert talk.asked(EAST) == []
    talk.wait(1.0)
    assert len(talk.asked(EAST)) == 1


def test_an_unauthenticated_client_is_not_counted() -> None:
    rates = DiscoveryRates(DiscoverySettings(user_rate={EVERYBODY: 1}))
    talk = Talk(users={"app": "secret"}, discovery=rates)
    talk.ask(METADATA, 8, {"topics": []})
    assert talk.closed is not None
    assert len(rates) == 0


def test_a_client_that_leaves_while_it_waits_ends_its_session() -> None:
    talk = slow()
    for _ in range(2):
        talk.ask(METADATA, 8, {"topics": []})
    (compose,) = composed(talk)
    talk.take(talk.session.client_left(talk.now))
    talk.composed(compose, NO_TOPICS)
    talk.wait(1.0)
    for late in composed(talk):
        talk.composed(late, NO_TOPICS)
    assert talk.closed is not None
    assert not any(isinstance(command, Wake) for command in talk.others)
