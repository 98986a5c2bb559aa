"""The platform in Airflow: its REST API behind Airflow's own logins, and the DAG that changes much at once."""

from tests.dags import airflow_home  # noqa: I001  # before anything of airflow

from collections.abc import Iterator
from pathlib import Path
from typing import Any
import importlib.util
import json
import logging

import pytest

from ha_core.operators import platform as served
from ha_core.platform.changing import put
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.present.page import log_lines
from ha_core.present.page_document import page_of
from ha_core.wire.sasl_scram import key_text, scram_key
from tests.dags.conftest import Run

pytestmark = pytest.mark.airflow
PREFIX = "/switchyard-platform"
ROLES = {"viewer": "viewer", "operator": "op", "admin": "admin", "user": "user"}
CHANGE = {
    "put": """
        users: [{name: alice, owner: shop, groups: [tills]}, {name: bob}]
        rules:
          - {principal: "User:alice", operation: read, resource_type: topic, name: orders}
          - {principal: "User:alice", operation: describe, resource_type: topic, name: orders}
        quotas: [{user: alice, producer_byte_rate: 1000}]
    """,
    "reason": "a new shop",
    "dry_run": False,
}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """Over the database of the connection."""
    document = {"conn_type": "switchyard_platform", "extra": {"sqlite_file": str(tmp_path / "platform.db")}}
    monkeypatch.setenv("AIRFLOW_CONN_SWITCHYARD_PLATFORM", json.dumps(document))
    with Platform.open(f"sqlite:///{tmp_path}/platform.db") as opened:
        yield opened


# -- REST -------------------------------------------------------------------------------------------------------------


class Api:
    """Airflow's API server with the plugin, and a token of a user of each role."""

    def __init__(self) -> None:
        from airflow.api_fastapi.app import create_app, get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
        from fastapi.testclient import TestClient

        app = create_app(apps="core")
        app.mount(PREFIX, plugin().SwitchyardPlatform.fastapi_apps[0]["app"])
        # What Airflow serves to whatever path is left comes last.
        app.router.routes.insert(0, app.router.routes.pop())
        self._client = TestClient(app, raise_server_exceptions=False)
        self.tokens = {
            role: get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=f"{role}-1", role=role))
            for role in ROLES
        }

    def __call__(self, method: str, path: str, role: str | None, body: Any = None, cookie: bool = False) -> Any:
        headers = {} if role is None else {"Authorization": f"Bearer {self.tokens[role]}"}
        if role is not None and cookie:
            headers = {"Cookie": f"_token={self.tokens[role]}"}
        return self._client.request(method, f"{PREFIX}{path}", json=body, headers=headers)


def plugin() -> Any:
    file = airflow_home.PROJECT / "plugins" / "switchyard_platform.py"
    spec = importlib.util.spec_from_file_location("switchyard_platform", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def api(metadata_db: None, registry: Platform, monkeypatch: pytest.MonkeyPatch) -> Api:
    return Api()


def test_users_who_may_run_the_dag_may_change_and_those_who_may_see_it_may_read(api: Api, registry: Platform) -> None:
    # Given
    new = {"value": {"name": "alice"}, "reason": "a test"}
    calls = [("GET", "/v1/users", None), ("POST", "/v1/users", new), ("GET", "/openapi.json", None)]
    # When a caller is not logged in, or has a forged token
    for method, path, body in calls:
        assert api(method, path, None, body).status_code == 401
    api.tokens["forged"] = "e30.e30.x"
    assert api("GET", "/v1/users", "forged").status_code == 403
    # Then nothing is told or changed; who may only look may only look
    assert api("GET", "/v1/users", "viewer").json()["items"] == []
    for method, path, body in (("POST", "/v1/users", new), ("POST", "/v1/passwords/generated", {})):
        refused = api(method, path, "viewer", body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert registry.read.page("users").stored == ()
    # And who may run the DAG changes it, in his own name, by a token and by the cookie that the UI has
    made = api("POST", "/v1/users", "user", new)
    assert (made.status_code, made.json()["by"]) == (201, "user-1")
    generated = api("POST", "/v1/passwords/generated", "admin", {"user": "alice", "reason": "first"}, cookie=True)
    assert len(generated.json()["password"]) == 32
    assert [entry.by for entry in registry.read.history("users").stored] == ["admin-1", "user-1"]
    assert "/v1/users" in api("GET", "/openapi.json", "viewer").json()["paths"]
    assert api("GET", "/v1/gateway/changes/users", "admin").status_code == 404


def test_while_the_database_is_away_its_address_is_not_disclosed_and_later_it_is_served(
    metadata_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(served, "RETRY_S", 0.0)
    monkeypatch.setenv(
        "AIRFLOW_CONN_SWITCHYARD_PLATFORM",
        json.dumps(
            {"conn_type": "switchyard_platform", "extra": {"sqlite_file": str(tmp_path / "file" / "platform.db")}}
        ),
    )
    (tmp_path / "file").write_text("in the way")
    api = Api()
    with caplog.at_level(logging.WARNING, "switchyard.airflow"):
        away = api("GET", "/v1/users", "admin")

    assert away.status_code == 503
    assert str(tmp_path) not in away.text
    assert "cannot be served" in caplog.text
    (tmp_path / "file").unlink()
    assert api("GET", "/v1/users", "admin").json()["items"] == []
    assert api("GET", "/v1/users", None).status_code == 401


# -- the DAG ----------------------------------------------------------------------------------------------------------


def names(registry: Platform, kind: str) -> set[str]:
    return {entry.key for entry in registry.read.page(kind).stored}


def test_many_changes_are_shown_by_a_dry_run_and_then_made_in_the_name_of_the_run(
    run_alone: Run, registry: Platform
) -> None:
    # When
    shown = run_alone("change_access", {**CHANGE, "dry_run": True})
    # Then nothing has happened
    assert shown.results["report"]["outcome"].startswith("DRY RUN: 5 would be changed on the platform: 1 quotas made")
    before = "\n".join(log_lines(page_of(shown.page("report"))))
    assert "Asked for by dag_test at " in before
    assert f": {CHANGE['reason']}" in before
    assert "will be made" in before
    assert ", what made" not in before
    assert names(registry, "users") == set()
    # And when it is run again without
    outcome = run_alone("change_access", CHANGE)
    # Then all of it is there, with who and why, and the page of the run says what was done
    assert outcome.state == "success"
    done = "DONE: 5 changed on the platform: 1 quotas made, 2 rules made, 2 users made. "
    assert outcome.results["report"]["outcome"].startswith(done)
    after = "\n".join(log_lines(page_of(outcome.page("report"))))
    assert f"Changed by dag_test (airflow:change_access/{outcome.run_id}): a new shop" in after
    assert ", what made" in after
    # And without gateways' addresses, so it is not known whether they enforce it
    (enforcement,) = outcome.results["report"]["enforcement"]
    assert enforcement.startswith("Whether a gateway enforces it is not known: ")
    assert enforcement in outcome.results["report"]["outcome"]
    assert outcome.results["report"]["users_without_a_password"] == ["alice", "bob"]
    assert 'made: quotas {"user": "alice", "producer_byte_rate": 1000}' in outcome.results["report"]["entries"]
    assert names(registry, "users") == {"alice", "bob"}
    (stored,) = registry.read.history("quotas").stored
    assert (stored.by, stored.reason) == (f"dag_test (airflow:change_access/{outcome.run_id})", "a new shop")
    # And once more there is nothing to do
    again = run_alone("change_access", CHANGE)
    assert again.results["report"]["outcome"] == "NOTHING TO DO: Nothing to change: all of it is in force already."


def test_with_four_eyes_a_question_marked_as_answered_by_hand_approves_nothing(
    run_alone: Run, registry: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SWITCHYARD__FOUR_EYES", "True")

    outcome = run_alone("change_access", {**CHANGE, "approval": "somebody else"}, mark_success_pattern="approve")

    assert outcome.state == "failed"
    said = outcome.results["report"]["outcome"]
    assert said.startswith("REFUSED: nothing changed. This installation demands four eyes"), said
    assert outcome.results["report"]["next"] == ["Trigger ▸ Trigger again with this config, when the cause is mended"]
    assert names(registry, "users") == set()


def test_keys_come_from_a_file_and_are_in_nothing_that_the_run_leaves(
    run_alone: Run,
    registry: Platform,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Given a file as `switchyard users entry` writes it
    key = key_text(scram_key("SCRAM-SHA-512", "secret-of-the-test", b"salt-of-the-test", 4096))
    file = tmp_path / "keys.yaml"
    file.write_text(f"alice:\n  SCRAM-SHA-512: {json.dumps(key)}\n")
    # When
    outcome = run_alone("change_access", {**CHANGE, "keys_file": str(file)})
    # Then
    assert outcome.results["report"]["users_without_a_password"] == ["bob"]
    entry = registry.read.get("users", "alice").entry
    assert isinstance(entry, UserEntry)
    assert set(entry.scram) == {"SCRAM-SHA-512"}
    secrets = [part.partition("=")[2] for part in key.split(",")[:3]]
    left = "".join([caplog.text, *capsys.readouterr(), json.dumps(outcome.results), *database_texts()])
    assert not [secret for secret in secrets if secret in left]


def database_texts() -> list[str]:
    """All that Airflow has written about runs."""
    return [airflow_home.DATABASE.read_bytes().decode("latin-1")]


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"put": "quotas: [{user: nobody, producer_byte_rate: 1}]"}, "user 'nobody'"),
        ({"put": "rules: [{}]", "delete": "quotas: [{user: 5}]"}, "2 entries are invalid"),
        ({"put": "users: [{name: alice}]", "keys_file": "/no/such/file"}, "/no/such/file cannot be read here"),
        ({"put": "users: ["}, "the field put is neither JSON nor YAML"),
        ({}, "0 entries"),
    ],
)
def test_invalid_entries_are_refused_with_every_reason_and_nothing_is_changed(
    run_alone: Run, registry: Platform, form: dict[str, Any], words: str
) -> None:
    outcome = run_alone("change_access", {**form, "reason": "a test", "dry_run": False})

    assert outcome.state == "failed"
    assert outcome.results["report"]["outcome"].startswith("REFUSED: nothing changed.")
    assert words in outcome.results["report"]["outcome"]
    assert names(registry, "users") == names(registry, "rules") == set()


def test_users_are_disabled_and_enabled(run_alone: Run, registry: Platform) -> None:
    registry.apply([put(UserEntry(name=name)) for name in ("alice", "bob")], "somebody", "a test")

    run_alone(
        "change_access", {"put": "users: [{name: alice, disabled: true}]", "reason": "has left", "dry_run": False}
    )

    entries = {name: registry.read.get("users", name).entry for name in ("alice", "bob")}
    assert {name: entry.disabled for name, entry in entries.items() if isinstance(entry, UserEntry)} == {
        "alice": True,
        "bob": False,
    }


def test_without_the_platforms_address_no_file_is_made(run_alone: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWITCHYARD_DATABASE", raising=False)

    outcome = run_alone("change_access", {**CHANGE})

    assert "make the connection switchyard_platform, or set SWITCHYARD_DATABASE" in outcome.results["report"]["outcome"]
