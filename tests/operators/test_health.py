"""Metrics of Airflow's parts for Prometheus."""

import threading
from typing import Any

import pytest

from ha_core.operators.pages.health import HealthBusyError, HealthLook, HealthMetrics, silent_parts
from ha_core.present.web.airflow import airflow_card
from ha_core.present.web.problems import problem_cards

REPORT: dict[str, Any] = {
    "metadatabase": {"status": "healthy"},
    "scheduler": {"status": "healthy", "latest_scheduler_heartbeat": "2026-11-23T02:00:00+00:00"},
    "triggerer": {"status": None, "latest_triggerer_heartbeat": None},
    "dag_processor": {"status": "unhealthy", "latest_dag_processor_heartbeat": "2026-11-23T01:59:00+00:00"},
}


def test_the_last_sign_of_life_of_each_part_that_ever_ran_is_shown() -> None:
    lines = HealthMetrics(lambda: REPORT).render().decode().splitlines()

    assert [line for line in lines if not line.startswith("#")] == [
        "switchyard_airflow_database_reachable 1.0",
        'switchyard_airflow_heartbeat_timestamp_seconds{component="scheduler"} 1.7953992e+09',
        'switchyard_airflow_heartbeat_timestamp_seconds{component="dag-processor"} 1.79539914e+09',
    ]


def test_many_scrapes_at_once_make_one_look_at_the_database() -> None:
    looks, now_s = list[int](), 0.0

    def look() -> dict[str, Any]:
        looks.append(1)
        return REPORT

    health = HealthMetrics(look, lambda: now_s)
    for _ in range(100):
        health.render()
    assert len(looks) == 1
    now_s = 2.0
    health.render()
    assert len(looks) == 2


def test_a_scrape_does_not_wait_for_a_database_that_hangs_in_an_earlier_one() -> None:
    asked, answers = threading.Event(), threading.Event()

    def look() -> dict[str, Any]:
        asked.set()
        answers.wait(10)
        return REPORT

    health = HealthMetrics(look)
    first = threading.Thread(target=health.render)
    first.start()
    asked.wait(10)

    with pytest.raises(HealthBusyError, match="database"):
        health.render()

    answers.set()
    first.join()


AT_S = 1795399200.0  # when the scheduler of REPORT has given its last sign of life; the dag-processor a minute before


def test_a_part_without_a_sign_of_life_for_30_s_waits_for_an_operator_with_its_runbook() -> None:
    assert [one.name for one in silent_parts(HealthLook(REPORT, AT_S), 1.0)] == ["dag-processor"]
    (scheduler, _) = silent_parts(HealthLook(REPORT, AT_S + 25), 6.0)
    assert scheduler == ("scheduler", 31.0)

    page = problem_cards([], first=[airflow_card(scheduler)])

    assert "1 problem waits for an operator" in page
    assert "scheduler has given no sign of life for 31 s" in page
    assert "docs/runbooks/airflow-away.md" in page


@pytest.mark.parametrize(("status", "age_s"), [("unhealthy", 0.5), ("healthy", 31.0)])
def test_a_database_that_fails_or_answers_no_further_look_is_named_alone(status: str, age_s: float) -> None:
    report = {**REPORT, "metadatabase": {"status": status}}

    (found,) = silent_parts(HealthLook(report, AT_S), age_s)

    assert "Airflow's database does not answer" in airflow_card(found)
