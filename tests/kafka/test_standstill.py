"""Long work is no standstill."""

from ha_core.kafka.copying.standstill import STOOD_STILL_S, Standstill


class Process:
    """A clock, and the used processor time."""

    def __init__(self) -> None:
        self.now_s = self.worked_s = 100.0
        self.standstill = Standstill(lambda: self.now_s, lambda: self.worked_s)

    def works(self, seconds: float, on_a_share: float = 1.0) -> None:
        """:param on_a_share: of a busy processor."""
        self.worked_s += seconds
        self.now_s += seconds / on_a_share

    def stands_still(self, seconds: float) -> None:
        self.now_s += seconds


def test_long_work_is_no_standstill() -> None:
    process = Process()
    process.works(3 * STOOD_STILL_S)
    assert process.standstill.found_s() == 0.0


def test_slow_work_with_regular_looks_is_no_standstill() -> None:
    process = Process()
    for _ in range(10):
        process.works(1.0, on_a_share=0.2)
        process.standstill.look()
    assert process.standstill.found_s() == 0.0


def test_standstill_between_work_is_reported_once() -> None:
    # Given a process that worked, stood still, and worked on without being asked
    process = Process()
    process.works(20.0)
    process.stands_still(STOOD_STILL_S + 1)
    process.works(5.0)
    process.standstill.look()
    process.works(20.0)
    # When it is asked, then it reports the standstill, and not again
    assert process.standstill.found_s() == STOOD_STILL_S + 1
    assert process.standstill.found_s() == 0.0
