"""The session of a job: whose settings apply, and a missing Spark Connect server."""

import json
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkAssertionError

from spark_jobs import session
from spark_jobs.command import main
from spark_jobs.session import SparkConnectError, open_session
from stack.java import SHORT_LIVED, find_java
from stack.layout import PROJECT
from stack.spark_java import spark_environment

SAYS = """
import json
from spark_jobs.session import open_session
with open_session() as spark:
    print(json.dumps(dict(spark.sparkContext.getConf().getAll())))
"""


@pytest.mark.stack
def test_code_overrides_no_setting_of_the_operator(tmp_path: Path) -> None:
    # Given an operator's settings
    said = {"spark.app.name": "mine", "spark.executorEnv.PYTHONPATH": "/theirs", "spark.ui.enabled": "false"}
    quick = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": " ".join(SHORT_LIVED)}
    options = [text for key, value in (said | quick).items() for text in ("--conf", f"{key}='{value}'")]
    submit = f"--master local[1] {' '.join(options)} pyspark-shell"
    # When a job opens its session
    done = subprocess.run(
        [sys.executable, "-c", SAYS],
        env={**os.environ, **spark_environment(find_java()), "PYSPARK_SUBMIT_ARGS": submit, "PYTHONPATH": str(PROJECT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # Then they apply, and nothing else is set for the executors
    assert done.returncode == 0, done.stderr
    holds = json.loads(done.stdout.splitlines()[-1])
    assert {key: holds.get(key) for key in said} == said
    assert [key for key in holds if key.startswith("spark.executorEnv.PY")] == ["spark.executorEnv.PYTHONPATH"]


def unused_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"sc://127.0.0.1:{free.getsockname()[1]}"


def test_missing_server_is_waited_for_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Given
    monkeypatch.setattr(session, "WAIT_S", 2.5)
    remote = unused_address()
    # When
    with (
        pytest.raises(SparkConnectError, match=f"at {remote} has not answered for .* Start it, or give") as error,
        open_session(remote),
    ):
        pass
        # Then each attempt is logged
    assert "--remote" in str(error.value)
    looks = [record for record in caplog.records if record.name == session.__name__]
    assert [remote in look.getMessage() for look in looks] == [True] * 2
    assert {look.levelno for look in looks} == {logging.WARNING}


@pytest.mark.parametrize("remote", ["127.0.0.1:15002", "spark://127.0.0.1:7077", "sc://", "sc://host:port"])
def test_invalid_address_is_refused_at_once(remote: str) -> None:
    with pytest.raises(SparkConnectError, match="sc://HOST:PORT is expected"), open_session(remote):
        pass


def test_a_job_without_its_server_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "WAIT_S", 0.0)
    clusters, remote = tmp_path / "clusters.json", unused_address()
    clusters.write_text('{"clusters": [{"name": "east", "bootstrap": "east:9092"}]}')
    summary = tmp_path / "summary.json"
    files = ["--clusters", str(clusters), "--history", str(tmp_path / "history"), "--summary", str(summary)]
    ended = main(["facts", *files, "--remote", remote])
    said = capsys.readouterr().err
    assert json.loads(summary.read_text()) == {"job": "facts", "failed_because": said.removeprefix("error: ").rstrip()}
    assert (ended, said.count("\n"), said.startswith(f"error: the Spark Connect server at {remote} ")) == (3, 1, True)


def test_an_answer_of_another_session_names_the_server_that_lost_it() -> None:
    # Given a restarted server, which opens a new session for an unknown name
    with socket.create_server(("127.0.0.1", 0)) as again:
        remote = f"sc://127.0.0.1:{again.getsockname()[1]}"
        # When Spark's client notices that the session is another one
        with pytest.raises(SparkConnectError, match="has lost the session"), session.naming(remote):
            raise PySparkAssertionError("Received incorrect server side session identifier for request.")
