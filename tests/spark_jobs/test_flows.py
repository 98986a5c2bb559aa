"""The driver of the Spark job `flows`, with a Spark that only keeps tasks."""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ha_core.mirror_maker.flows_file import FlowsFile
from spark_jobs import flows
from spark_jobs.driver_watchdog import SparkGoneError
from spark_jobs.flows import FlowRemark, WorkerEnded, WorkerSettings, WorkerTask, _Tasks
from spark_jobs.inputs import InputError
from spark_jobs.long_tasks import JobTags
from spark_jobs.session import SparkConnectError

TWO = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\n"
PATIENCE_S = 20.0


class KeptTasks:
    """Runs tasks until they are cancelled. A cancel before a task was submitted finds nothing, as Spark's does."""

    def __init__(self, remarks: list[FlowRemark] | None = None) -> None:
        self.remarks = remarks or []
        self.begun: list[WorkerSettings] = []
        self.submits_after: Callable[[], object] = lambda: None
        self.fails: Exception | None = None
        self._running: dict[str, threading.Event] = {}

    def run(self, _spark: Any, tag: str, task: "partial[Any]", given: WorkerTask, _ended: Any) -> list[Any]:
        if given.slot < 0:
            return list(self.remarks)
        settings: WorkerSettings = task.args[0]
        self.begun.append(settings)
        self.submits_after()
        if self.fails is not None:
            raise self.fails
        self._running[tag] = cancelled = threading.Event()
        cancelled.wait(PATIENCE_S)
        return [WorkerEnded(given.slot, "it was cancelled")]

    def tags(self, _spark: Any) -> JobTags:
        return JobTags(lambda: None, lambda _tag: None, self._cancel)

    def _cancel(self, tag: str) -> None:
        if tag in self._running:
            self._running.pop(tag).set()

    def count(self) -> int:
        return len(self._running)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> KeptTasks:
    kept = KeptTasks()
    monkeypatch.setattr(flows, "run_task", kept.run)
    monkeypatch.setattr(flows, "tags_of", kept.tags)
    for name in ("_LOOK_S", "_READ_EVERY_S", "_RESTART_S"):
        monkeypatch.setattr(flows, name, 0.05)
    return kept


def driver(
    file: FlowsFile, ending: threading.Event, slots: Callable[[], int] = lambda: 1, limited: bool = True
) -> _Tasks:
    settings = WorkerSettings("127.0.0.1:1", "/switchyard", 6.0, str(file.path), file.read(), ())
    return _Tasks(None, None, slots, file, settings, ending, limited=True)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def written(folder: Path, text: str = TWO) -> FlowsFile:
    (folder / "mm2.properties").write_text(text)
    return FlowsFile(folder / "mm2.properties")


def test_a_task_that_is_submitted_while_the_file_changes_begins_anew_with_it(tasks: KeptTasks, tmp_path: Path) -> None:
    file, ending, changed = written(tmp_path), threading.Event(), threading.Event()
    tasks.submits_after = lambda: changed.wait(PATIENCE_S)
    running = driver(file, ending)
    thread = threading.Thread(target=running.run)
    thread.start()
    until(lambda: len(tasks.begun) == 1)
    earlier = tasks.begun[0].found
    # When the file changes before Spark has the task, so that a single cancel would find nothing
    written(tmp_path, f"{TWO}topics = orders\n")
    until(lambda: running._settings.found is not earlier)
    time.sleep(0.2)
    changed.set()
    # Then the task ends, and the next one has the new file
    until(lambda: len(tasks.begun) == 2 and tasks.count() == 1)
    assert tasks.begun[1].found is running._settings.found is not earlier
    ending.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_there_are_no_more_tasks_than_shares_of_the_flows(tasks: KeptTasks, tmp_path: Path) -> None:
    ending = threading.Event()
    thread = threading.Thread(target=driver(written(tmp_path), ending, lambda: 400).run)
    thread.start()
    until(lambda: tasks.count() == 16)
    time.sleep(0.2)
    assert tasks.count() == 16
    ending.set()
    thread.join(PATIENCE_S)
    assert tasks.count() == 0


def test_errors_of_the_check_end_the_job_before_a_worker_begins(tasks: KeptTasks, tmp_path: Path) -> None:
    tasks.remarks = [FlowRemark("a remark", False), FlowRemark("A and B are one cluster", True)]
    with pytest.raises(InputError, match=r"mm2\.properties cannot be run now:\nA and B are one cluster"):
        driver(written(tmp_path), threading.Event()).run()
    assert tasks.begun == []


def test_a_spark_connect_server_that_has_lost_the_session_ends_the_job(tasks: KeptTasks, tmp_path: Path) -> None:
    tasks.fails = SparkConnectError("sc://a:1", "has lost the session, as after a restart")
    with pytest.raises(SparkConnectError):
        driver(written(tmp_path), threading.Event()).run()


def test_a_driver_that_hangs_is_not_called_at_the_end(
    tasks: KeptTasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(flows, "tags_of", lambda _spark: JobTags(lambda: None, calls.append, calls.append))

    def slots() -> int:
        if tasks.count():
            raise SparkGoneError("has not answered for 30 s")
        return 1

    with pytest.raises(SparkGoneError):
        driver(written(tmp_path), threading.Event(), slots).run()
    assert calls == []
