"""The pre-flight check warns if a limit of the target's brokers is narrower than the origin's."""

import pytest

from ha_core.plan.mirror.linking import LINK_RULES
from ha_core.plan.preflight.clusters import LIMITS, narrower
from tests.plan.preflight_case import SOUND

EAST = dict.fromkeys(LIMITS, "1000")


@pytest.mark.parametrize("key", LIMITS)
def test_a_limit_that_allows_less_is_narrower_and_one_that_allows_more_is_not(key: str) -> None:
    less, more = ("999", "1001") if LIMITS[key].upper else ("1001", "999")

    assert [one.key for one in narrower(EAST, EAST | {key: less})] == [key]
    assert list(narrower(EAST, EAST | {key: more})) == []
    assert list(narrower(EAST, EAST)) == []


@pytest.mark.parametrize(("here", "there"), [({}, EAST), (EAST, {})])
def test_unreadable_limits_cause_no_warning(here: dict[str, str], there: dict[str, str]) -> None:
    assert list(narrower(here, there)) == []


@pytest.mark.parametrize("rules", ["moves", "links"])
def test_a_narrower_limit_is_a_warning_with_both_values_and_the_way_out(rules: str) -> None:
    key = "transaction.max.timeout.ms"
    case = SOUND.with_reach("east", limits=EAST).with_reach("west", limits=EAST | {key: "10"})

    (verdict,) = case.judge(LINK_RULES) if rules == "links" else case.judge()

    assert (verdict.level, verdict.code, verdict.about) == ("warning", "narrower-limit", f"setting {key}")
    for word in ("west", "=10", "1000", "INVALID_TRANSACTION_TIMEOUT"):
        assert word in verdict.text
