"""Meters outlive their clients, and no user can make a gateway forget another user's debt."""

import pytest

from gateway.quotas import charges
from gateway.quotas.charges import Meters
from ha_core.model import Identity
from ha_core.model.quota import DEFAULT, QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas

NOW = 1_000.0
LIMITED = Quotas({QuotaEntity(DEFAULT, DEFAULT): {QuotaKind.PRODUCE: 1_000.0}})


def use(meters: Meters, user: str, instance: str, size: int) -> float:
    """Seconds for which nothing more may be written."""
    found = meters.charges(LIMITED, Identity(user, instance), NOW)
    assert found is not None
    assert found.produce is not None
    return found.produce.spend(size, {}, NOW)


def test_a_user_who_makes_up_client_ids_evicts_only_its_own_meters(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a user with a large debt, and a limit of meters
    monkeypatch.setattr(charges, "MAX_METERS_OF_USER", 10)
    meters = Meters()
    assert use(meters, "alice", "app", 20_000) > 9
    # When another user makes up more client ids than there may be
    for number in range(50):
        use(meters, "mallory", f"made-up-{number}", 1)
    # Then that user's meters are bounded, and a new connection of the first user still has the debt
    assert len(meters) == 11
    assert use(meters, "alice", "app", 1) > 9


def test_all_meters_together_are_bounded_and_the_oldest_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charges, "MAX_METERS", 10)
    meters = Meters()
    # Given the maximum number of meters, of as many users
    for number in range(10):
        use(meters, f"user-{number}", "app", 20_000)
    # When one more comes, and the audit has reported the throttled ones
    use(meters, "new", "app", 20_000)
    meters.throttled.clear()
    # Then only the oldest begins again
    assert len(meters) == 10
    assert use(meters, "user-1", "app", 1) > 9
    assert use(meters, "user-0", "app", 1) == 0


def test_idle_meters_are_dropped() -> None:
    meters = Meters()
    use(meters, "alice", "app", 1)
    use(meters, "alice", "other", 1)
    meters.forget_idle(NOW)
    assert len(meters) == 2
    meters.forget_idle(NOW + 60)
    assert len(meters) == 0
    assert meters.kept() == ()
