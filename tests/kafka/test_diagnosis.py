"""Why a source refuses an offset, and what the copier does about it."""

import pytest

from ha_core.kafka.copying.diagnosis import (
    Diagnosis,
    LooksAgain,
    PassesOvertaken,
    RefusedOffset,
    Stops,
    diagnose,
)
from ha_core.kafka.facts import LogEnds

REFUSED = RefusedOffset("orders-0 of east", at=50, leader_epoch=4, diverging_end=-1, tries=0, anew="begin anew")


def ends(start: int, end: int) -> LogEnds:
    return LogEnds(start, end, end, end, 1, 5)


@pytest.mark.parametrize("start", [51, 80], ids=["some are left", "nothing is left"])
def test_a_copy_that_retention_has_overtaken_stops_or_goes_on_with_the_number(start: int) -> None:
    stopped, passed = (diagnose(REFUSED, ends(start, 80), passes) for passes in (False, True))
    counted = f"orders-0 of east begins at {start}, and offset 50 would be copied next. {start - 50} offsets are lost"
    assert isinstance(stopped, Stops)
    assert isinstance(passed, PassesOvertaken)
    assert counted in stopped.reason
    assert counted in passed.reason
    assert passed.start == start


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize(
    ("refused", "end", "what"),
    [
        (REFUSED, 40, "the source was truncated: orders-0 of east ended at 40, and was copied up to 50"),
        (REFUSED._replace(diverging_end=45), 90, "ended at 45, and was copied up to 50"),
        (REFUSED._replace(tries=5), 90, "but not the leader epoch 4"),
    ],
    ids=["a log that is too short", "a log that diverges", "a log restored from elsewhere"],
)
def test_a_source_that_has_lost_copied_records_stops_every_copy(
    passes: bool, refused: RefusedOffset, end: int, what: str
) -> None:
    found: Diagnosis = diagnose(refused, ends(0, end), passes)
    assert isinstance(found, Stops)
    assert what in found.reason
    assert "begin anew" in found.reason


@pytest.mark.parametrize("tries", [0, 4])
def test_an_offset_that_the_source_has_is_asked_for_again(tries: int) -> None:
    assert isinstance(diagnose(REFUSED._replace(tries=tries), ends(0, 90), False), LooksAgain)
