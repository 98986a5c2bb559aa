"""The jobs' command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack.layout import PROJECT


@pytest.mark.parametrize(
    ("file", "chance", "why"),
    [
        ("missing.json", "0.01", "missing.json: No such file or directory. Give the path of a readable file."),
        ("clusters.json", "2", "chance 2.0 is not between 0 and 1. Correct the option."),
    ],
)
def test_an_input_that_cannot_be_used_ends_the_job_before_spark_starts(
    file: str, chance: str, why: str, tmp_path: Path
) -> None:
    # Given no Java, without which Spark would fail in another way
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "none")}
    (tmp_path / "clusters.json").write_text('{"clusters": [{"name": "east", "bootstrap": "east:9092"}]}')
    program = [sys.executable, str(PROJECT / "spark_jobs/__main__.py"), "offsets"]
    # When
    done = subprocess.run(
        [*program, "--clusters", file, "--history", "history", "--output", "out", "--chance", chance],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    # Then
    assert (done.returncode, done.stderr) == (2, f"error: {why}\n")
    assert [one.name for one in tmp_path.iterdir()] == ["clusters.json"]
