"""The quota that applies to a client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model.quota import (
    DEFAULT,
    Limits,
    QuotaEntity,
    QuotaKind,
    check_entity,
    check_limit,
    check_limits,
    named,
)
from ha_core.plan.access.quotas import AppliedQuota, Quotas, QuotaScope

P = QuotaKind.PRODUCE
ORDER = (
    (QuotaEntity("alice", "app"), QuotaScope(P, "alice", "app")),
    (QuotaEntity("alice", DEFAULT), QuotaScope(P, "alice", "app")),
    (QuotaEntity("alice"), QuotaScope(P, "alice", None)),
    (QuotaEntity(DEFAULT, "app"), QuotaScope(P, "alice", "app")),
    (QuotaEntity(DEFAULT, DEFAULT), QuotaScope(P, "alice", "app")),
    (QuotaEntity(DEFAULT), QuotaScope(P, "alice", None)),
    (QuotaEntity(None, "app"), QuotaScope(P, None, "app")),
    (QuotaEntity(None, DEFAULT), QuotaScope(P, None, "app")),
)
"""From the most specific to the least, as Kafka documents it, and whose use is counted together by each."""


def limits(rate: float) -> Limits:
    return {P: rate}


@given(st.sets(st.integers(0, len(ORDER) - 1)))
def test_the_most_specific_matching_quota_applies(given_ones: set[int]) -> None:
    quotas = Quotas({ORDER[place][0]: limits(place + 1.0) for place in given_ones})
    expected = None if not given_ones else AppliedQuota(ORDER[min(given_ones)][1], min(given_ones) + 1.0)
    assert quotas.of(P, "alice", "app") == expected


def test_a_quota_that_does_not_limit_this_is_none_for_it() -> None:
    quotas = Quotas({QuotaEntity("alice", "app"): {QuotaKind.FETCH: 5.0}, QuotaEntity("alice"): limits(7.0)})
    assert quotas.of(P, "alice", "app") == AppliedQuota(QuotaScope(P, "alice", None), 7.0)
    assert quotas.of(QuotaKind.REQUEST, "alice", "app") is None


def test_a_default_counts_for_each_user_by_himself() -> None:
    quotas = Quotas({QuotaEntity(DEFAULT): limits(7.0)})
    assert quotas.of(P, "alice", "app") == AppliedQuota(QuotaScope(P, "alice", None), 7.0)
    assert quotas.of(P, "bob", "app") == AppliedQuota(QuotaScope(P, "bob", None), 7.0)


def test_topics_with_a_separate_quota_are_listed() -> None:
    quotas = Quotas({QuotaEntity("alice", None, "orders"): limits(7.0), QuotaEntity("bob", None, "o"): limits(1.0)})
    assert quotas.of_topics(P, "alice") == {"orders": AppliedQuota(QuotaScope(P, "alice", None, "orders"), 7.0)}
    assert quotas.of_topics(QuotaKind.FETCH, "alice") == {}
    assert quotas.of(P, "alice", "app") is None


@pytest.mark.parametrize(
    ("name", "users", "expected"),
    [
        ("alice.orders", {"alice"}, QuotaEntity("alice", None, "orders")),
        ("alice.orders.eu", {"alice"}, QuotaEntity("alice", None, "orders.eu")),
        ("cn.shop.orders.eu", {"cn.shop"}, QuotaEntity("cn.shop", None, "orders.eu")),
        ("a.b.c", {"a", "a.b"}, QuotaEntity("a.b", None, "c")),
        ("alice.orders", {"bob"}, QuotaEntity(instance="alice.orders")),
        ("alice", {"alice"}, QuotaEntity(instance="alice")),
        ("alice.", {"alice"}, QuotaEntity(instance="alice.")),
        (".orders", {""}, QuotaEntity(instance=".orders")),
        ("alice.or\nders", {"alice"}, QuotaEntity(instance="alice.or\nders")),
        ("alice.a b", {"alice"}, QuotaEntity(instance="alice.a b")),
    ],
)
def test_a_name_with_dots_is_split_by_known_users(name: str, users: set[str], expected: QuotaEntity) -> None:
    assert named(name, users) == expected


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("producer_byte_rate", 0.0, "must be greater than 0"),
        ("consumer_byte_rate", -1.0, "must be greater than 0"),
        ("consumer_byte_rate", float("nan"), "must be greater than 0"),
        ("producer_byte_rate", float("inf"), "at most"),
        ("producer_byte_rate", 1.5, "fractional"),
        ("request_percentage", 1e9, "at most"),
        ("request_percentage", 5e-324, "at least"),
        ("controller_mutation_rate", 1.0, "Invalid configuration key"),
    ],
)
def test_an_invalid_limit_is_refused(key: str, value: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_limit(key, value)


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        (QuotaEntity(), "neither user nor instance"),
        (QuotaEntity(user=""), "of 0 characters"),
        (QuotaEntity(user="x" * 256), "of 256 characters"),
        (QuotaEntity(topic="orders"), "neither user nor instance"),
        (QuotaEntity(DEFAULT, None, "orders"), "one user"),
        (QuotaEntity("alice", "app", "orders"), "one user"),
        (QuotaEntity("alice", None, "or/ders"), "no topic"),
    ],
)
def test_a_quota_without_user_and_instance_is_refused(entity: QuotaEntity, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_entity(entity)


def test_of_a_topic_only_bytes_are_counted() -> None:
    with pytest.raises(ValueError, match="request_percentage"):
        check_limits(QuotaEntity("alice", None, "orders"), {QuotaKind.REQUEST: 5.0})


def test_client_ids_that_are_longer_than_a_quota_can_name_count_together_where_they_begin_alike() -> None:
    quotas = Quotas({QuotaEntity(None, DEFAULT): limits(7.0)})
    quota, other = (quotas.of(P, "alice", "x" * 300 + end) for end in ("a", "b"))
    assert quota == other == AppliedQuota(QuotaScope(P, None, "x" * 255), 7.0)
