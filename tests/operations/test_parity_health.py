"""Problems of pairs: a stale result is overdue, whether it had differences or none."""

from types import SimpleNamespace

import pytest

from ha_core.model.parity import Drift, Parity
from ha_core.operations.overview.parity_health import OVERDUE_S, parity_problems

DRIFT = Drift(kind="topic", about="orders", source="3 partitions")


@pytest.mark.parametrize(
    ("drifts", "age_s", "codes"),
    [
        ((), 0.0, []),
        ((), OVERDUE_S + 1, ["parity-overdue"]),
        ((DRIFT,), 0.0, ["parity-drift"]),
        ((DRIFT,), OVERDUE_S + 1, ["parity-drift", "parity-overdue"]),
    ],
)
def test_a_result_that_is_too_old_is_overdue_with_differences_and_without(
    drifts: tuple[Drift, ...], age_s: float, codes: list[str]
) -> None:
    parity = Parity(pair="a@b", source="a", target="b", at="2026-01-01T00:00:00Z", drifts=drifts)
    environment = SimpleNamespace(store=SimpleNamespace(parities=lambda: [parity]), age_s=lambda _: age_s)

    assert [one.code for one in parity_problems(environment)] == codes  # type: ignore[arg-type]
