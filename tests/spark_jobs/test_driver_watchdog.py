"""A job whose Java process has ended, or hangs, reports it and ends instead of waiting forever."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from spark_jobs.driver_watchdog import DriverWatchdog, SparkGoneError, first_line, within
from stack.java import find_java
from stack.layout import PROJECT
from stack.spark_java import spark_environment
from tests.kit.waiting import soon

JOB = """
import time
from spark_jobs.driver_watchdog import DriverWatchdog
from spark_jobs.session import open_session
with open_session() as session:
    pulse = DriverWatchdog(lambda: session.sparkContext.defaultParallelism, patience_s=2, every_s=0.2)
    print(session.sparkContext._gateway.proc.pid, flush=True)
    while True:
        pulse.answer()
        time.sleep(0.1)
"""


def until_it_is_gone(pulse: DriverWatchdog) -> str:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            pulse.answer()
        except SparkGoneError as error:
            return str(error)
        time.sleep(0.01)
    pytest.fail("it was never told")


def test_the_last_answer_is_given_at_once() -> None:
    answers = iter((4, 5, 5, 5))
    pulse = DriverWatchdog(lambda: next(answers, 6), every_s=0.01)
    assert pulse.answer() in {4, 5, 6}
    soon(lambda: pulse.answer() == 6)
    pulse.stop()


def test_silent_driver_is_given_up_after_a_while() -> None:
    hangs, first = threading.Event(), iter((4,))
    pulse = DriverWatchdog(lambda: next(first, None) or int(not hangs.wait()), patience_s=0.3, every_s=0.01)
    assert "has not answered for" in until_it_is_gone(pulse)
    # And it counts as alive again as soon as it answers
    hangs.set()
    until = time.monotonic() + 10
    while True:
        assert time.monotonic() < until
        try:
            assert pulse.answer() == 0
            break
        except SparkGoneError:
            time.sleep(0.01)
    pulse.stop()


def test_ended_driver_is_reported_with_its_error() -> None:
    pulse = DriverWatchdog(iter((4,)).__next__, every_s=0.01)
    assert "has ended (" in until_it_is_gone(pulse)


def test_hanging_call_is_abandoned() -> None:
    assert within(5, lambda: None)
    assert not within(0.05, threading.Event().wait)


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ("An error occurred while calling o117.getResult.\n: org.apache.spark.SparkException: lost\n\tat", "lost"),
        ("it broke\nhere", "it broke"),
        ("", "Exception('')"),
    ],
)
def test_error_of_java_is_reported_without_the_call(said: str, first: str) -> None:
    assert first_line(Exception(said)).endswith(first)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_job_without_its_java_process_ends_and_leaves_none(number: signal.Signals, tmp_path: Path) -> None:
    # Given a job whose session is open
    environment = {**os.environ, **spark_environment(find_java()), "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(
        [sys.executable, "-c", JOB],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stdout is not None
        java = int(job.stdout.readline())
        # When its Java process stops, or ends
        os.kill(java, number)
        # Then the job ends, with the reason
        _, said = job.communicate(timeout=60)
    assert job.returncode
    assert "SparkGoneError: Spark's driver (the Java process of this job) has " in said
    soon(lambda: not Path(f"/proc/{java}").exists())
