"""The rules of `deploy/prometheus`, played the metrics of real faults: each fires on its fault, and on no other day."""

import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.alarms.recording import FOLDER, RULES, Recording, metrics_of, rules
from tests.kit.prometheus import missing, programs

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
ROOT = Path(__file__).parents[2]
MINUTES = 20
"""A fault lasts so long, and longer than any alarm waits."""
FIRING: dict[str, set[str]] = {}
HAND_MADE: dict[str, list[dict[str, str]]] = {}


def promtool(*arguments: str, folder: Path = ROOT) -> str:
    done = subprocess.run(
        [programs().promtool, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def play(folder: Path, series: list[dict[str, str]], expected: Collection[str], minutes: int = MINUTES) -> None:
    """Exactly these alarms fire at some time."""
    ever = f'group by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{minutes}m]))'
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)]
    test: dict[str, Any] = {
        "interval": "5s",
        "input_series": series,
        "promql_expr_test": [{"expr": ever, "eval_time": f"{minutes}m", "exp_samples": samples}],
    }
    (folder / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [test]})
    )
    promtool("test", "rules", "test.yaml", folder=folder)


def test_promtool_accepts_rules_and_sample() -> None:
    promtool("check", "rules", str(RULES))
    promtool("check", "config", "--syntax-only", str(RULES.with_name("prometheus.yaml")))


def test_every_rule_says_what_to_do_next_and_has_a_runbook() -> None:
    for rule in rules():
        annotations = rule["annotations"]
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert annotations.keys() == {"summary", "description", "runbook_url"}, rule["alert"]
        assert annotations["runbook_url"].startswith("docs/runbooks/")
        assert annotations["runbook_url"].endswith(".md")
        assert len(annotations["summary"]) < 180


def test_every_rule_has_a_fault_on_which_it_fires() -> None:
    shown = set().union(*FIRING.values()) | HAND_MADE.keys()

    assert shown == {rule["alert"] for rule in rules()}


def test_recordings_have_every_metric_of_the_rules() -> None:
    recorded = {name.partition("{")[0] for fault in FIRING for name in Recording.read(fault).series}
    made = metrics_of(one["series"] for series in HAND_MADE.values() for one in series)
    used = metrics_of(rule["expr"] for rule in rules())

    assert set(used) - recorded - set(made) == set()


def test_every_recording_is_played() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == FIRING.keys()


@pytest.mark.parametrize("fault", FIRING)
def test_exactly_the_alarms_of_a_fault_fire(fault: str, tmp_path: Path) -> None:
    play(tmp_path, Recording.read(fault).input_series(MINUTES), FIRING[fault])


@pytest.mark.parametrize("alert", HAND_MADE)
def test_alarms_of_faults_that_a_stack_does_not_show_fire(alert: str, tmp_path: Path) -> None:
    names = {one["series"].partition("{")[0] for one in HAND_MADE[alert]}
    others = [
        one for one in Recording.read("normal").input_series(MINUTES) if one["series"].partition("{")[0] not in names
    ]

    play(tmp_path, [*others, *HAND_MADE[alert]], {alert})
