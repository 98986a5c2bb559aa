"""A loop that works long is not one that stood still."""

from __future__ import annotations

from ha_core.kafka.copying.standstill import STOOD_STILL_S, Standstill


class Process:
    """Its clock, and the processor time that it has used."""

    def __init__(self) -> None:
        self.now_s = self.worked_s = 100.0
        self.standstill = Standstill(lambda: self.now_s, lambda: self.worked_s)

    def works(self, seconds: float, on_a_share: float = 1.0) -> None:
        """:param on_a_share: of a processor that others want, too."""
        self.worked_s += seconds
        self.now_s += seconds / on_a_share

    def stands_still(self, seconds: float) -> None:
        self.now_s += seconds


def test_who_works_for_longer_than_others_wait_has_not_stood_still() -> None:
    process = Process()
    process.works(3 * STOOD_STILL_S)
    assert process.standstill.found_s() == 0.0


def test_who_works_on_a_small_share_of_a_processor_has_not_stood_still_where_he_looks_up_now_and_then() -> None:
    process = Process()
    for _ in range(10):
        process.works(1.0, on_a_share=0.2)
        process.standstill.look()
    assert process.standstill.found_s() == 0.0


def test_a_standstill_is_found_once_whatever_is_worked_before_and_behind_it() -> None:
    # Given a process that worked, stood still, and worked on without being asked
    process = Process()
    process.works(20.0)
    process.stands_still(STOOD_STILL_S + 1)
    process.works(5.0)
    process.standstill.look()
    process.works(20.0)
    # When it is asked, then it is told, and not again
    assert process.standstill.found_s() == STOOD_STILL_S + 1
    assert process.standstill.found_s() == 0.0
