"""Bodies of pages: many viewers of one look, viewers with a filter each, and a body that takes long."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from markupsafe import Markup

from ha_core.operators.pages import bodies
from ha_core.operators.pages.bodies import MAX_KEPT, MAX_WAITING, Bodies
from ha_core.operators.pages.reading import ReadersBusyError
from ha_core.operators.pages.watched import Seen


def a_look(number: int) -> Seen[int]:
    return Seen(number, 1.0, "", number)


class Hanging:
    """Makes a body that takes until `end` is set."""

    def __init__(self) -> None:
        self.begun, self.end = threading.Event(), threading.Event()

    def __call__(self, value: int) -> Markup:
        self.begun.set()
        assert self.end.wait(10)
        return Markup(value)

    def within(self, kept: Bodies, words: str, seen: Seen[int]) -> Callable[[], None]:
        """Begin to make the body; the result ends it."""
        thread = threading.Thread(target=lambda: kept.body("topics", words, seen, self))
        thread.start()
        assert self.begun.wait(10)

        def ended() -> None:
            self.end.set()
            thread.join(10)

        return ended


def test_viewers_of_one_look_and_filter_share_a_body_and_the_next_look_has_another() -> None:
    made, kept = list[int](), Bodies()

    def show(value: int) -> Markup:
        made.append(value)
        time.sleep(0.1)
        return Markup(f"<p>{value}</p>")

    with ThreadPoolExecutor(20) as viewers:
        found = {*viewers.map(lambda _: kept.body("topics", "", a_look(1), show).html, range(20))}
    assert (found, made) == ({"<p>1</p>"}, [1])
    assert kept.body("topics", "", a_look(2), show).html == "<p>2</p>"
    assert kept.body("groups", "", a_look(2), show).html == "<p>2</p>"
    assert made == [1, 2, 2]


def test_a_viewer_gets_the_body_of_the_look_before_with_its_age_while_the_new_one_is_made() -> None:
    kept, hanging = Bodies(), Hanging()
    kept.body("topics", "", a_look(1), Markup)
    end = hanging.within(kept, "", a_look(2))

    began_s = time.monotonic()
    old = kept.body("topics", "", a_look(2), Markup)

    assert (old.html, time.monotonic() - began_s < 0.2) == ("1", True)
    assert old.age_s >= 1.0
    end()
    assert kept.body("topics", "", a_look(2), Markup).html == "2"


def test_an_old_body_is_not_shown_in_place_of_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "FIRST_WAIT_S", 0.05)
    kept, hanging = Bodies(), Hanging()
    kept.body("topics", "", Seen(1, 3_600.0, "", 1), Markup)
    end = hanging.within(kept, "", a_look(2))

    with pytest.raises(ReadersBusyError):
        kept.body("topics", "", a_look(2), Markup)

    end()


def test_a_flood_of_filters_holds_up_neither_the_page_without_one_nor_memory() -> None:
    kept, hanging = Bodies(), Hanging()
    end = hanging.within(kept, "w", a_look(1))

    with pytest.raises(ReadersBusyError, match="Ask again in a moment"):
        kept.body("groups", "other words", a_look(1), Markup)
    assert kept.body("topics", "", a_look(1), Markup).html == "1"
    end()

    for number in range(3 * MAX_KEPT):
        kept.body("topics", f"words {number}", a_look(1), Markup)
    assert len(kept._kept) <= MAX_KEPT


def test_a_body_that_cannot_be_made_stops_no_later_viewer() -> None:
    kept = Bodies()

    def fails(_: int) -> Markup:
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        kept.body("topics", "", a_look(1), fails)
    assert kept.body("topics", "", a_look(1), Markup).html == "1"


def test_few_viewers_with_a_filter_wait_and_further_ones_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "READER_WAIT_S", 10.0)
    kept, hanging = Bodies(), Hanging()
    end = hanging.within(kept, "w", a_look(1))
    with ThreadPoolExecutor(MAX_WAITING) as viewers:
        waiting = [viewers.submit(kept.body, "topics", f"w{n}", a_look(1), Markup) for n in range(MAX_WAITING)]
        deadline_s = time.monotonic() + 10
        while kept._waiters._value and time.monotonic() < deadline_s:
            time.sleep(0.01)

        began_s = time.monotonic()
        with pytest.raises(ReadersBusyError):
            kept.body("topics", "more words", a_look(1), Markup)
        assert time.monotonic() - began_s < 1.0

        end()
        assert {one.result(10).html for one in waiting} == {"1"}
