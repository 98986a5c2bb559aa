"""Values behind the pages of Airflow's UI: many viewers, clusters and ZooKeeper that are away."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from ha_core.operators.pages import watched
from ha_core.operators.pages.site import Site
from ha_core.operators.pages.watched import Seen, Watched


def test_many_viewers_share_one_look() -> None:
    looks = list[int]()

    def read() -> str:
        looks.append(1)
        time.sleep(0.2)
        return "seen"

    pages = Watched(read, (ValueError,))
    with ThreadPoolExecutor(10) as viewers:
        found = list(viewers.map(lambda _: pages.seen().value, range(10)))

    assert (found, len(looks)) == (["seen"] * 10, 1)


def test_a_viewer_waits_a_moment_for_the_first_look_and_never_for_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_EVERY_S", 0.0)
    going_on, begun = threading.Event(), threading.Event()

    def read() -> int:
        begun.set()
        assert going_on.wait(10)
        return 1

    pages = Watched(read, (ValueError,))
    began_s = time.monotonic()
    assert pages.seen().value is None
    assert time.monotonic() - began_s < 1.0
    going_on.set()
    while pages.seen().value is None:
        time.sleep(0.01)
    going_on.clear()
    begun.clear()
    while not begun.is_set():  # the next look begins, and hangs
        pages.seen()
    began_s = time.monotonic()
    seen = pages.seen()
    assert (seen.value, time.monotonic() - began_s < 0.1) == (1, True)
    assert seen.age_s is not None
    going_on.set()


def test_a_failed_look_keeps_the_last_value_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(watched, "SHARE", 0)
    answers: list[str | Exception] = ["first", ValueError("ZooKeeper is away"), RuntimeError("with a secret")]

    def read() -> str:
        answer = answers.pop(0) if answers else ValueError("ZooKeeper is away")
        if isinstance(answer, Exception):
            raise answer
        return answer

    pages, errors = Watched(read, (ValueError,)), list[str]()
    assert pages.seen().value == "first"
    deadline = time.monotonic() + 10
    while len(set(errors)) < 3 and time.monotonic() < deadline:
        seen = pages.seen()
        assert seen.value == "first"
        errors.append(seen.error)
        time.sleep(0.005)
    assert {*errors} >= {"ZooKeeper is away"}
    assert not any("secret" in error for error in errors)


def test_a_value_from_before_a_time_without_viewers_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page said "Nothing waits for an operator", of 24 minutes ago, while a cluster was dead."""
    monkeypatch.setattr(watched, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(watched, "FIRST_WAIT_S", 0.1)
    answers, going_on = ["calm", "a cluster is away"], threading.Event()

    def read() -> str:
        if len(answers) == 1:
            assert going_on.wait(10)
        return answers.pop(0)

    pages = Watched(read, (ValueError,))
    while pages.seen().value is None:
        time.sleep(0.01)
    later_s = time.monotonic() + 1_000
    monkeypatch.setattr(watched, "time", SimpleNamespace(monotonic=lambda: later_s))

    assert pages.seen() == Seen(None, None, "")
    going_on.set()
    found = None
    while found is None:
        found = pages.seen().value

    assert found == "a cluster is away"


def test_a_look_that_takes_long_is_repeated_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_EVERY_S", 0.01)
    looks = list[int]()

    def read() -> int:
        looks.append(1)
        time.sleep(0.1)
        return len(looks)

    pages = Watched(read, ())
    until_s = time.monotonic() + 0.6
    while time.monotonic() < until_s:
        pages.seen()
        time.sleep(0.01)

    assert len(looks) == 1


@pytest.mark.parametrize("path", ["fleet", "migrations", "topics", "groups", "clients", "mirrors"])
def test_a_page_without_zookeeper_answers_with_the_reason(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"conn_type": "switchyard_zookeeper", "host": "127.0.0.1", "port": 1}
    monkeypatch.setenv("AIRFLOW_CONN_SWITCHYARD_ZOOKEEPER", json.dumps(there))
    site = Site()
    deadline = time.monotonic() + 60
    while (answer := site.answer(path, {})).status == 200 and time.monotonic() < deadline:
        assert "The first look is under way" in answer.html
        time.sleep(0.1)

    assert answer.status == 503
    assert "no ZooKeeper answers at 127.0.0.1:1" in answer.html


@pytest.mark.parametrize(
    ("path", "query", "words"),
    [
        ("history", {"since": "yesterday"}, "is no time"),
        ("history", {"user": "x" * 301}, "more than 300"),
        ("operation", {}, "lacks id="),
        ("start", {"dag": "rm -rf"}, "there is no form"),
        ("start", {"dag": "fail_over_cluster", "unread": "skip"}, "has no field unread"),
    ],
)
def test_a_bad_address_names_what_is_wrong(path: str, query: dict[str, str], words: str) -> None:
    answer = Site().answer(path, query)

    assert answer.status in (400, 503)
    assert words in answer.html
