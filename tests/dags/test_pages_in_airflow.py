"""The pages behind Airflow's logins: who may read them, and what an answer lets a browser do."""

from tests.dags import airflow_home  # noqa: I001  # before anything of airflow

import importlib.util
import json
from typing import Any

import pytest

pytestmark = pytest.mark.airflow
PREFIX = "/switchyard"
PATHS = ("fleet", "migrations", "topics", "groups", "clients", "history", "mirrors", "topic", "operation", "start")


@pytest.fixture
def api(metadata_db: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Airflow's API server with the plugin; a call takes a path and the role of the user: None: no login, "": none."""
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    there = {"conn_type": "switchyard_zookeeper", "host": "127.0.0.1", "port": 1}
    monkeypatch.setenv("AIRFLOW_CONN_SWITCHYARD_ZOOKEEPER", json.dumps(there))
    file = airflow_home.PROJECT / "plugins" / "switchyard_pages.py"
    spec = importlib.util.spec_from_file_location("switchyard_pages", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    app = create_app(apps="core")
    app.mount(PREFIX, module.SwitchyardPages.fastapi_apps[0]["app"])
    # What Airflow serves to whatever path is left comes last.
    app.router.routes.insert(0, app.router.routes.pop())
    client = TestClient(app, raise_server_exceptions=False)

    def call(path: str, role: str | None, method: str = "GET", **more: Any) -> Any:
        headers = {}
        if role is not None:
            token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=role or "x", role=role or None))
            headers = {"Authorization": f"Bearer {token}"}
        return client.request(method, path, headers=headers, **more)

    return call


def test_pages_and_files_are_for_users_who_are_logged_in_and_a_viewer_may_trigger_nothing(api: Any) -> None:
    for path in (*PATHS, "style.css", "live.js"):
        assert api(f"{PREFIX}/{path}", None).status_code == 401, path
    run = {"logical_date": None, "conf": {"cluster": "east", "reason": "a test"}}

    refused = api("/api/v2/dags/fail_over_cluster/dagRuns", "viewer", "POST", json=run)

    assert refused.status_code == 403
    assert api(f"{PREFIX}/start?dag=fail_over_cluster&cluster=east", "viewer").status_code == 200
    # The pages themselves change nothing: no other method is answered
    for path in PATHS:
        assert api(f"{PREFIX}/{path}", "admin", "POST").status_code == 405, path


def test_a_user_without_rights_reads_no_page_and_no_outcome_also_of_every_dag(api: Any) -> None:
    for path in (*PATHS, "group", "style.css", "live.js", "runs/sync_mirrors/a-run", "runs/~/a-run"):
        for query in ("", "?dag_id=~", "?dag_id=another"):
            answer = api(f"{PREFIX}/{path}{query}", "")

            assert (answer.status_code, answer.json()) == (403, {"detail": "Forbidden"}), path
    assert api(f"{PREFIX}/runs/sync_mirrors/a-run", None).status_code == 401
    assert api(f"{PREFIX}/runs/sync_mirrors/a-run", "viewer").status_code == 200


def test_prometheus_reads_how_airflows_parts_are_without_a_login_and_nothing_else(api: Any) -> None:
    answer = api(f"{PREFIX}/metrics", None)

    assert answer.status_code == 200
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert lines[0] == "switchyard_airflow_database_reachable 1.0"
    assert all(line.startswith("switchyard_airflow_") for line in lines)
    assert api(f"{PREFIX}/metrics", "admin", "POST").status_code == 405


def test_an_answer_lets_a_browser_load_only_the_pages_own_files_and_keep_nothing(api: Any) -> None:
    for path in ("fleet", "live.js", "style.css"):
        answer = api(f"{PREFIX}/{path}", "viewer")
        policy = answer.headers["Content-Security-Policy"]

        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert "unsafe" not in policy
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["../fleet", "fleet/..%2f..", "style.css%00", "settings", "openapi.json", "docs"])
def test_other_paths_are_not_answered(api: Any, path: str) -> None:
    answer = api(f"{PREFIX}/{path}", "admin")

    assert "Switchyard</title>" not in answer.text or answer.status_code == 404
