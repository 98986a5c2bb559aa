"""Metrics of Airflow's parts for Prometheus."""

import threading
from typing import Any

import pytest

from ha_core.operators.pages.health import HealthBusyError, HealthMetrics

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
