"""The rules of `deploy/prometheus`, played the metrics of real faults: each fires on its fault, and on no other day."""

import re
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.alarms.parts import BEFORE_S, FAULTS
from tests.alarms.recording import EVERY_S, FOLDER, RULES, Recording, metrics_of, rules
from tests.kit.prometheus import missing, programs

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
ROOT = Path(__file__).parents[2]
PAGED_S = 60
LONGEST_WAIT_S = 30
LEFT_OVER_S = 15
"""A recording begins before its fault, and may begin with the end of the fault that was recorded before."""
MINUTES = 20
"""A fault lasts so long, and longer than any alarm waits."""
_FIRING = {
    "normal": (),
    "certificate_ending": ("CertificateEnds",),
    "approval_waiting": ("ApprovalWaits",),
    "fence_standing": ("FenceStands",),
    "operation_killed": ("OperationStands",),
    "unreadable_document": ("UnreadableDocuments", "StateNotSeen"),
    "connections_refused": ("ConnectionsRefused",),
    "logins_failing": ("LoginsFail",),
    "worker_paused": ("WorkersAway",),
    "gateway_killed": ("GatewayDown",),
    "gateway_paused": ("GatewayDown",),
    "gateway_starved": ("GatewaySlow",),
    "gateway_cut_from_zookeeper": ("GatewayDoesNotFollow", "GatewayNotReady", "LeaseRunsOut"),
    "writer_masked": ("Problem",),
    "mirror_job_killed": ("MirrorJobDown", "MirrorDamaged"),
    "cluster_dead": ("ClusterAway", "FactsStale", "MirrorBehind"),
    "cluster_left_by_force": ("ClusterAway", "RecordsReportedLost"),
    # From `tests.alarms.parts`. In one the clusters differed meanwhile, in another one a cluster was just back, and in
    # `cluster_east_2_killed` the mirror's tasks were still starting.
    "gateway_2_killed": ("GatewayDown",),
    "gateway_2_paused": ("GatewayDown", "Problem"),
    "cluster_east_2_killed": ("BrokerAway", "MirrorWorkersAway"),
    "cluster_east_2_paused": ("BrokerAway",),
    "cluster_west_killed": ("ClusterAway", "MirrorBehind", "MirrorLagUnknown"),
    "cluster_west_paused": ("ClusterAway", "MirrorBehind"),
    "zookeeper_2_killed": ("ZooKeeperMemberAway", "MirrorNotInSync"),
    "zookeeper_2_paused": ("ZooKeeperMemberAway",),
    "zookeeper_killed": ("GatewayNotReady", "LeaseRunsOut", "NoFactsRecorded", "StateNotSeen"),
    "zookeeper_paused": ("GatewayNotReady", "LeaseRunsOut", "NoFactsRecorded", "StateNotSeen"),
    "mirror_killed": ("MirrorJobDown", "MirrorDamaged"),
    "mirror_paused": ("MirrorJobDown", "MirrorDamaged"),
    "mirror_executor_paused": ("MirrorWorkersAway", "MirrorDamaged"),
    "airflow_scheduler_killed": ("AirflowPartStands",),
    "airflow_scheduler_paused": ("AirflowPartStands",),
    "airflow_dag_processor_killed": ("AirflowPartStands",),
    "airflow_dag_processor_paused": ("AirflowPartStands",),
    "airflow_triggerer_killed": ("AirflowPartStands",),
    "airflow_triggerer_paused": ("AirflowPartStands",),
    "airflow_api_server_killed": ("AirflowDown",),
    "airflow_api_server_paused": ("AirflowDown",),
    "platform_killed": ("PlatformAway",),
    "platform_paused": ("PlatformAway",),
    "zookeeper_stopped": ("GatewayNotReady", "LeaseRunsOut", "NoFactsRecorded", "FactsStale", "StateNotSeen"),
}
FIRING = {fault: {f"Switchyard{name}" for name in names} for fault, names in _FIRING.items()}
"""Recorded fault → all alarms that it raises."""
_GATEWAYS = ("127.0.0.1:1", "127.0.0.1:2")


def _of_gateway(metric: str, number: int, values: str, **labels: str) -> dict[str, str]:
    own = {"instance": _GATEWAYS[number], "job": "switchyard-gateway", **labels}
    named = ",".join(f'{key}="{text}"' for key, text in own.items())
    return {"series": f"{metric}{{{named}}}", "values": values}


HAND_MADE: dict[str, list[dict[str, str]]] = {
    # A gateway that uses nine tenths of a core, beside one with two workers that use as much together.
    "SwitchyardGatewayBusy": [
        _of_gateway("process_cpu_seconds_total", 0, "0+4.5x240"),
        _of_gateway("process_cpu_seconds_total", 1, "0+4.5x240"),
        _of_gateway("switchyard_gateway_ready", 0, "1x240"),
        _of_gateway("switchyard_gateway_ready", 1, "1x240"),
        _of_gateway("switchyard_gateway_workers", 1, "2x240"),
        _of_gateway("switchyard_gateway_workers_answering", 1, "2x240"),
    ],
    "SwitchyardBrokersHangUp": [
        _of_gateway(
            "switchyard_gateway_upstream_hang_ups_total", 0, "0x10 1+1x240", api="describe_acls", cluster="east"
        )
    ],
    "SwitchyardClusterAwayForOne": [
        _of_gateway("switchyard_gateway_cluster_reachable", 0, "0x240", cluster="east"),
        _of_gateway("switchyard_gateway_cluster_reachable", 1, "1x240", cluster="east"),
    ],
    "SwitchyardMirrorNotInSync": [_of_gateway("switchyard_problems", 0, "1x240", code="mirror-not-in-sync")],
    "SwitchyardPartitionsWithoutLeader": [
        _of_gateway("switchyard_gateway_cluster_leaderless_partitions", 0, "2x240", cluster="east"),
    ],
    "SwitchyardFlowWorkerDown": [{"series": 'up{instance="127.0.0.1:3",job="switchyard-flows"}', "values": "0x240"}],
    "SwitchyardMirrorDriverAway": [
        {"series": f'up{{instance="127.0.0.1:{port}",job="switchyard-mirror"}}', "values": f"{value}x240"}
        for port, value in ((3, 0), (4, 1))
    ],
    "SwitchyardMirrorLagUnknown": [
        {
            "series": 'switchyard_mirror_unknown_lag_partitions{instance="127.0.0.1:3",job="switchyard-mirror",'
            'source="east",target="west"}',
            "values": "2x240",
        }
    ],
    "SwitchyardFlowWaits": [
        {
            "series": 'switchyard_flow_partitions{flow="a->b",instance="127.0.0.1:3",job="switchyard-flows",'
            'state="waiting"}',
            "values": "2x10 0 2x10 0 2x240",
        }
    ],
    "SwitchyardFlowStands": [
        {
            "series": f'{metric}{{flow="a->b",instance="127.0.0.1:3",job="switchyard-flows"{more}}}',
            "values": f"{value}x240",
        }
        for metric, more, value in (
            ("switchyard_flow_up", "", 0),
            ("switchyard_flow_partitions", ',state="stopped"', 0),
            ("switchyard_flow_duty_failing", ',duty="groups"', 0),
        )
    ],
}
"""Alarms on faults that the recorded stack does not show → series of one, in place of the normal ones."""


def promtool(*arguments: str, folder: Path = ROOT) -> str:
    done = subprocess.run(
        [programs().promtool, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def play(
    folder: Path,
    series: list[dict[str, str]],
    expected: Collection[str],
    seconds: int = 60 * MINUTES,
    among: str = ".*",
) -> None:
    """Exactly these alarms fire at some time, of those whose name the pattern has."""
    firing = f'ALERTS{{alertstate="firing",alertname=~"{among}"}}'
    ever = f"group by (alertname) (max_over_time({firing}[{seconds - LEFT_OVER_S}s]))"
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)]
    test: dict[str, Any] = {
        "interval": "5s",
        "input_series": series,
        "promql_expr_test": [{"expr": ever, "eval_time": f"{seconds}s", "exp_samples": samples}],
    }
    (folder / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": f"{EVERY_S}s", "tests": [test]})
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
        assert (ROOT / annotations["runbook_url"]).parent == ROOT / "docs" / "runbooks"
        assert (ROOT / annotations["runbook_url"]).is_file(), annotations["runbook_url"]
        assert len(annotations["summary"]) < 180


def test_a_runbook_names_its_alarms_and_no_others() -> None:
    runbooks = {path.name: path.read_text("utf-8") for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    named = {(name, alert) for name, text in runbooks.items() for alert in re.findall(r"`(Switchyard[A-Z]\w+)`", text)}
    own = {(Path(rule["annotations"]["runbook_url"]).name, rule["alert"]) for rule in rules()}

    assert own - named == set()
    assert {alert for _, alert in named} == {alert for _, alert in own}


def test_prometheus_scrapes_and_evaluates_as_often_as_a_page_within_a_minute_takes() -> None:
    times = yaml.safe_load(RULES.with_name("prometheus.yaml").read_text())["global"]

    assert (times["scrape_interval"], times["evaluation_interval"]) == (f"{EVERY_S}s", f"{EVERY_S}s")


def test_a_rule_that_waits_for_more_than_half_a_minute_says_why_beside_it() -> None:
    lines = RULES.read_text("utf-8").splitlines()
    waits = [(number, line.strip()) for number, line in enumerate(lines) if line.strip().startswith("for: ")]

    long = [number for number, text in waits if text.endswith("m") or int(text.strip("for: s")) > LONGEST_WAIT_S]

    assert long
    assert [lines[number] for number in long if not lines[number - 1].strip().startswith("# ")] == []


def test_the_sample_scrapes_each_job_that_a_rule_names() -> None:
    sample = yaml.safe_load(RULES.with_name("prometheus.yaml").read_text())
    named = {job for rule in rules() for job in re.findall(r'job="([\w-]+)"', rule["expr"])}

    assert {one["job_name"] for one in sample["scrape_configs"]} == named


@pytest.mark.parametrize("fault", [fault.name for fault in FAULTS if fault.name in FIRING])
def test_a_part_that_dies_or_stands_still_is_paged_within_a_minute(fault: str, tmp_path: Path) -> None:
    (expected,) = [{f"Switchyard{name}" for name in one.expected} for one in FAULTS if one.name == fault]
    # The fault begins after `BEFORE_S`; whichever expected alarm comes first is the page
    ever = Recording.read(fault).input_series(1)

    fired = [name for name in sorted(expected) if _fires(tmp_path, ever, name, BEFORE_S + PAGED_S)]

    assert fired


def _fires(folder: Path, series: list[dict[str, str]], name: str, seconds: int) -> bool:
    try:
        play(folder, series, {name}, seconds, among=name)
    except AssertionError:
        return False
    return True


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
