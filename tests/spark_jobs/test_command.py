"""The jobs' command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ha_core.model import Mirror
from spark_jobs.command import main
from spark_jobs.inputs import InputError, from_file
from stack.layout import PROJECT
from tests.kit.operations import a_migration


@pytest.mark.parametrize(
    ("file", "chance", "why"),
    [
        ("missing.json", "0.01", "error: missing.json: No such file or directory. Give the path of a readable file."),
        ("clusters.json", "2", "spark_jobs offsets: error: argument --chance: 2.0 is not between 0 and 1"),
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
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, why)
    assert [one.name for one in tmp_path.iterdir()] == ["clusters.json"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--chance", "0"),
        ("--chance", "1"),
        ("--preparation-s", "-1"),
        ("--preparation-s", "inf"),
        ("--default-rate", "nan"),
        ("--least-headroom", "-1"),
        ("--window-s", "0"),
        ("--parallel", "0"),
    ],
)
def test_an_impossible_demand_is_refused_by_name(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["offsets", "--history", "history", "--output", "out", f"{option}={value}"])
    assert ended.value.code == 2
    assert f"argument {option}: " in (said := capsys.readouterr().err)
    assert " is not " in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--topics", "nothing"], "Topic nothing has no mirror."),
        (["--topics", "bills, orders"], "Topic orders has mirrors in north, west. Name one of them with --to."),
        (["--topics", "bills", "--to", "north"], "Topic bills has no mirror in north (there is one in west)."),
    ],
)
def test_topic_with_an_ambiguous_mirror_is_not_verified(
    options: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [("orders", "west"), ("orders", "north"), ("bills", "west")]
    mirrors = [Mirror.of(topic, "east", target, "link", "2026-01-01T00:00:00Z", "test") for topic, target in made]
    told = {
        "clusters": [{"name": "east", "bootstrap": "east:9092"}],
        "mirrors": [json.loads(mirror.to_bytes()) for mirror in mirrors],
    }
    (file := tmp_path / "told.json").write_text(json.dumps(told))

    summary = tmp_path / "summary.json"
    rest = ["--output", str(tmp_path), "--seed", "", "--summary", str(summary)]
    code = main(["verify", "--clusters", str(file), *rest, *options])

    assert code == 2
    assert f"error: {why}" in capsys.readouterr().err
    # And the summary tells the program that started the job
    assert json.loads(summary.read_text())["refused"].startswith(why)


@pytest.mark.parametrize("value", ["0", "1.5", "nan"])
def test_a_sample_is_a_share(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["verify", "--output", "out", "--sample", value])
    assert "above 0, and 1 or less" in capsys.readouterr().err


def test_inputs_from_a_file_equal_those_from_the_store(tmp_path: Path) -> None:
    ended = a_migration("orders", state="succeeded", ended="1970-01-01T00:00:07Z")
    (tmp_path / "told.json").write_text(
        json.dumps(
            {
                "clusters": [{"name": "east", "bootstrap": "east:9092"}],
                "operations": [json.loads(ended.to_bytes())],
                "homes": {"group": ["east"]},
            }
        )
    )

    inputs = from_file(tmp_path / "told.json")

    assert inputs.clusters["east"].bootstrap == "east:9092"
    assert inputs.homes == {"group": {"east"}}
    assert inputs.crossed == {("east", "orders"): 7_000}


@pytest.mark.parametrize(("text", "why"), [("{}", "clusters Field required. Write {"), ("[", "Invalid JSON")])
def test_a_file_that_holds_no_inputs_is_named(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "told.json").write_text(text)

    with pytest.raises(InputError, match=r"told\.json") as caught:
        from_file(tmp_path / "told.json")

    assert why in str(caught.value)
