"""Meters outlive those who use them, and nobody can make a gateway forget what another one owes."""

from __future__ import annotations

import pytest

from gateway.quotas import charges
from gateway.quotas.charges import Meters
from ha_core.model import Identity
from ha_core.model.quota import DEFAULT, QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas

NOW = 1_000.0
LIMITED = Quotas({QuotaEntity(DEFAULT, DEFAULT): {QuotaKind.PRODUCE: 1_000.0}})


def use(meters: Meters, user: str, instance: str, size: int) -> float:
    """For how many seconds nothing more may be written."""
    found = meters.charges(LIMITED, Identity(user, instance), NOW)
    assert found is not None
    assert found.produce is not None
    return found.produce.take(size, {}, NOW)


def test_who_makes_up_client_ids_makes_a_gateway_forget_only_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a user who owes much, and a limit of meters
    monkeypatch.setattr(charges, "MAX_METERS_OF_USER", 10)
    meters = Meters()
    assert use(meters, "alice", "app", 20_000) > 9
    # When another one makes up more client ids than there may be
    for number in range(50):
        use(meters, "mallory", f"made-up-{number}", 1)
    # Then his are bounded, and whoever connects anew as the first still owes it
    assert len(meters) == 11
    assert use(meters, "alice", "app", 1) > 9


def test_all_together_are_bounded_and_the_longest_kept_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charges, "MAX_METERS", 10)
    meters = Meters()
    # Given as many as there may be, of as many users
    for number in range(10):
        use(meters, f"user-{number}", "app", 20_000)
    # When one more comes, and the audit has told who was throttled
    use(meters, "new", "app", 20_000)
    meters.throttled.clear()
    # Then the oldest begins anew, and no other one
    assert len(meters) == 10
    assert use(meters, "user-1", "app", 1) > 9
    assert use(meters, "user-0", "app", 1) == 0


def test_what_is_idle_is_forgotten() -> None:
    meters = Meters()
    use(meters, "alice", "app", 1)
    use(meters, "alice", "other", 1)
    meters.forget_idle(NOW)
    assert len(meters) == 2
    meters.forget_idle(NOW + 60)
    assert len(meters) == 0
    assert meters.kept() == ()
