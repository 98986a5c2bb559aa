"""Every supported version of Airflow reads all DAGs, and runs a dry run and a switch; OpenLineage has its topics."""

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from ha_core.operations.clusters.registered import declare_usage
from ha_core.operations.engine.environment import EnvironmentSettings, connect
from stack.harness import Stack
from stack.layout import cache_dir
from tests.airflow_matrix.versions import VERSIONS, environment_of
from tests.dags import airflow_home
from tests.dags.names import DAGS
from tests.kit.running import create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.airflow, pytest.mark.soak, pytest.mark.timeout(3_000)]

stack = own_stack(gateways=1)


def in_version(version: str, stack: Stack, home: Path, form: dict[str, Any]) -> dict[str, Any]:
    host, port = stack.zookeeper.rsplit(":", 1)
    connection = {"conn_type": "switchyard_zookeeper", "host": host, "port": int(port)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SWITCHYARD"))}
    own = {
        "PYTHONPATH": str(airflow_home.PROJECT),
        "SWITCHYARD_TEST_AIRFLOW_HOME": str(home),
        "AIRFLOW_CONN_SWITCHYARD_ZOOKEEPER": json.dumps({**connection, "extra": {"root": "/switchyard"}}),
    }
    python = environment_of(version, cache_dir() / "airflow-matrix")
    result = home / "result.json"
    files = (str(home / "lineage.json"), str(result))
    command = [str(python), "-m", "tests.airflow_matrix.one_version", json.dumps(form), *files]
    ended = subprocess.run(
        command, env={**kept, **own}, cwd=home, capture_output=True, text=True, check=False, timeout=600
    )
    assert ended.returncode == 0, ended.stdout[-4_000:] + ended.stderr[-4_000:]
    document: dict[str, Any] = json.loads(result.read_text())
    return document


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_of_airflow_reads_all_dags_and_switches_a_user(version: str, stack: Stack, tmp_path: Path) -> None:
    # Given a user with a topic in east
    name = uuid.uuid4().hex[:8]
    create_topic(stack.clusters["east"]["bootstrap"], f"topic-{name}", 1)
    with connect(EnvironmentSettings(stack.zookeeper), by="test") as environment:
        declare_usage(environment, f"user-{name}", (f"topic-{name}",), ())
    form = {"scope": [f"user:user-{name}"], "from": "east", "to": "west", "reason": "a test"}
    # When Airflow makes a dry run, and then moves them
    shown = in_version(version, stack, tmp_path, form)
    moved = in_version(version, stack, tmp_path, {**form, "dry_run": False})
    # Then all DAGs were read, and both have ended as they should
    assert (shown["errors"], shown["dags"]) == ({}, sorted(DAGS))
    assert (shown["state"], moved["state"]) == ("success", "success"), (shown, moved)
    assert shown["outcome"][0].endswith("Next: Trigger ▸ Trigger again with this config, untick Dry run")
    assert moved["outcome"][0].startswith("DONE: moved 1 topic from east to west")
    assert (shown["assets"], moved["assets"]) == ([], [f"kafka://west/topic-{name}"])
    # And OpenLineage has the topic in both clusters
    lines = (tmp_path / "lineage.json").read_text().splitlines()
    routes = {
        (before["namespace"], after["namespace"], after["name"])
        for event in map(json.loads, lines)
        for before, after in zip(event.get("inputs", ()), event.get("outputs", ()), strict=True)
    }
    assert routes == {("kafka://east", "kafka://west", f"topic-{name}")}
