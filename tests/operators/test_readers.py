"""Pages that read for each viewer: one who reloads as fast as possible leaves the others some of the readers."""

import threading
import time
from collections.abc import Callable

import pytest

from ha_core.operators.pages.reading import READER_WAIT_S, READERS, READERS_OF_ONE, Readers, ReadersBusyError


def holding(readers: Readers, viewer: str) -> Callable[[], None]:
    """Begin a request of the viewer; the result ends it."""
    begun, end = threading.Event(), threading.Event()

    def read() -> None:
        with readers.one(viewer):
            begun.set()
            assert end.wait(10)

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(10)

    def ended() -> None:
        end.set()
        thread.join(10)

    return ended


def test_a_viewer_has_some_of_the_readers_and_another_is_answered_beside() -> None:
    readers = Readers()
    ends = [holding(readers, "flood") for _ in range(READERS_OF_ONE)]

    began_s = time.monotonic()
    with pytest.raises(ReadersBusyError, match=f"{READERS_OF_ONE} of your requests"), readers.one("flood"):
        pass
    assert time.monotonic() - began_s < READER_WAIT_S + 1
    with readers.one("ann"):
        pass

    for end in ends:
        end()
    with readers.one("flood"):
        pass
    assert not readers._now


def test_no_more_than_all_readers_are_taken_by_many_viewers() -> None:
    readers = Readers()
    ends = [holding(readers, f"viewer-{number}") for number in range(READERS)]

    with pytest.raises(ReadersBusyError, match=f"{READERS} other requests"), readers.one("ann"):
        pass

    threading.Timer(0.05, ends.pop()).start()
    with readers.one("ann"):  # waits a moment
        pass
    for end in ends:
        end()


def test_a_request_that_fails_gives_its_reader_back() -> None:
    readers = Readers()
    for _ in range(READERS + 1):
        with pytest.raises(ValueError, match="a defect"), readers.one("ann"):
            raise ValueError("a defect")
