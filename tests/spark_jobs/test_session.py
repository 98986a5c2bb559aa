"""The session of a job: whose settings hold, and what becomes of a Spark Connect server that is not there."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs import session
from spark_jobs.command import main
from spark_jobs.mirror import job
from spark_jobs.mirror.task import Settings
from spark_jobs.session import SparkConnectError, naming, open_session
from stack.harness import Stack
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
def test_no_setting_in_code_stands_above_the_operators(tmp_path: Path) -> None:
    # Given what an operator says
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
    # Then that is what holds, and of the executors nothing else is said
    assert done.returncode == 0, done.stderr
    holds = json.loads(done.stdout.splitlines()[-1])
    assert {key: holds.get(key) for key in said} == said
    assert [key for key in holds if key.startswith("spark.executorEnv.PY")] == ["spark.executorEnv.PYTHONPATH"]


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"sc://127.0.0.1:{free.getsockname()[1]}"


def test_a_server_that_is_not_there_is_waited_for_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Given
    monkeypatch.setattr(session, "WAIT_S", 2.5)
    remote = nobody()
    # When
    with (
        pytest.raises(SparkConnectError, match=f"at {remote} does not answer .* Start it, or give") as error,
        open_session(remote),
    ):
        pass
    # Then each look is told
    assert "--remote" in str(error.value)
    assert [remote in one.getMessage() for one in caplog.records] == [True] * 2
    assert {one.levelno for one in caplog.records} == {logging.WARNING}


@pytest.mark.parametrize("remote", ["127.0.0.1:15002", "spark://127.0.0.1:7077", "sc://", "sc://host:port"])
def test_what_is_no_address_is_refused_at_once(remote: str) -> None:
    with pytest.raises(SparkConnectError, match="sc://HOST:PORT is expected"), open_session(remote):
        pass


def test_a_job_without_its_server_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "WAIT_S", 0.0)
    clusters, remote = tmp_path / "clusters.json", nobody()
    clusters.write_text('{"clusters": [{"name": "east", "bootstrap": "east:9092"}]}')
    ended = main(["facts", "--clusters", str(clusters), "--history", str(tmp_path / "history"), "--remote", remote])
    said = capsys.readouterr().err
    assert (ended, said.count("\n"), said.startswith(f"error: the Spark Connect server at {remote} ")) == (3, 1, True)


@pytest.fixture(scope="module")
def connect() -> Iterator[Stack]:
    with Stack.up({"east": "3.9.2"}, gateways=0, spark=True, spark_connect=True) as stack:
        yield stack


@pytest.mark.stack
def test_a_server_that_goes_away_is_named_and_so_is_one_that_has_lost_the_session(
    connect: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a session, and a client that gives up soon
    monkeypatch.setattr(session, "_TRIES", {"max_retries": 3, "max_backoff": 100})
    assert connect.spark is not None
    remote = str(connect.spark["connect"])

    def lose() -> None:
        with open_session(remote) as spark:
            assert spark.range(3).count() == 3
            # When the server is killed, then that is said
            connect.kill("spark/connect")
            with pytest.raises(SparkConnectError, match=f"at {remote} does not answer any more"), naming(remote):
                spark.range(3).count()
            # When it is there again, then the session is another one's
            connect.restart("spark/connect")
            spark.range(3).count()

    with pytest.raises(SparkConnectError, match=f"at {remote} has lost the session"):
        lose()
    # and an error that is not its own stays what it is
    with pytest.raises(Exception, match="nothing") as error, open_session(remote) as spark:
        spark.sql("select nothing").collect()
    assert not isinstance(error.value, SparkConnectError)


@pytest.mark.stack
def test_a_slot_of_the_mirror_job_ends_with_the_name_of_a_server_that_is_gone(
    connect: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a job that runs on a server
    monkeypatch.setattr(session, "_TRIES", {"max_retries": 3, "max_backoff": 100})
    assert connect.spark is not None
    remote = str(connect.spark["connect"])
    settings = Settings(connect.zookeeper, "/switchyard", {}, 5.0, 6.0, "")
    with job._session(settings, 1, remote) as spark:
        connect.kill("spark/connect")
        # When a slot's task is run there, and one is to be cancelled, then both end soon, and say why
        began = time.monotonic()
        for ask in (spark.run, spark.cancel):
            with pytest.raises(SparkConnectError, match=f"at {remote} does not answer any more"):
                ask("lead", 0)
        assert time.monotonic() - began < 15
    connect.restart("spark/connect")
