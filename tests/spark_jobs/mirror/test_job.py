"""The Spark job of a slot: the lead can cancel it from outside."""

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.long_tasks import tags_of
from spark_jobs.mirror import job
from spark_jobs.mirror.task import Slot, TaskEnded, TaskSettings
from tests.kafka.mirroring import wait_until

pytestmark = pytest.mark.long("spark_jobs/mirror")


def stands_still(file: str, _settings: TaskSettings, slots: Iterator[Slot]) -> Iterator[TaskEnded]:
    for slot in slots:
        Path(file).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
        yield TaskEnded(slot.slot, "it went on")


def test_stalled_task_is_cancelled_from_another_thread(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pid"
    monkeypatch.setattr(job, "run_slot", partial(stands_still, str(file)))
    settings = TaskSettings("nowhere", "/switchyard", {}, 1.0, 1.0, "")
    said: list[str] = []

    def keep() -> None:
        try:
            job._on_spark(spark, settings, "lead", 3)
        except Exception as error:
            said.append(str(error))

    # When a task stalls
    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        wait_until(lambda: file.exists() and bool(file.read_text()), lambda: said, 60)
        # And the lead cancels it, from a thread of its own
        tags_of(spark).cancel(job._tag("lead", 3))
        # Then its Spark job is over, and so is the process that ran it
        wait_until(lambda: bool(said), lambda: said, 20)
        wait_until(lambda: not Path(f"/proc/{file.read_text()}").exists(), file.read_text, 20)
        assert "cancelled" in said[0]
    finally:
        if file.exists() and Path(f"/proc/{file.read_text()}").exists():
            os.kill(int(file.read_text()), signal.SIGKILL)
