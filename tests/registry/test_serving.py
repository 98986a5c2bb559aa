"""The REST API, called without a network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import HTTPException, Request
from fastapi.testclient import TestClient

from ha_core.platform.errors import InvalidError, PlatformAwayError, TokenFileError
from ha_core.platform.platform import Platform
from ha_core.platform.remote import HttpSource
from ha_core.platform.serving import tokens
from ha_core.platform.serving.answers import MAX_BODY_BYTES
from ha_core.platform.serving.app import NO_ZOOKEEPER, make_operators_app
from ha_core.platform.serving.server import require_safe
from ha_core.platform.serving.tokens import Caller
from tests.registry.rest import GATEWAY, KNOWN, OPERATOR, client_with, failed


def user(name: str, **more: Any) -> dict[str, Any]:
    return {"value": {"name": name, **more}, "reason": "a test"}


def test_an_entry_is_created_read_changed_and_deleted(operator: TestClient) -> None:
    made = operator.post("/v1/users", json=user("alice", owner="shop"))
    assert (made.status_code, made.json()["version"], made.json()["by"]) == (201, 1, "till")

    changed = operator.put("/v1/users/alice", json={**user("alice", owner="till"), "version": 1})
    assert changed.json()["value"]["owner"] == "till"
    assert operator.get("/v1/users/alice").json() | {"enforcement": [NO_ZOOKEEPER]} == changed.json()

    deleted = operator.delete("/v1/users/alice", params={"version": 2, "reason": "gone"})
    assert (deleted.json()["version"], deleted.json()["value"]) == (3, None)
    assert failed(operator.get("/v1/users/alice")) == (404, "not_there")
    history = operator.get("/v1/history/users", params={"key": "alice"}).json()
    assert [one["version"] for one in history["items"]] == [3, 2, 1]


def test_each_change_says_where_it_is_in_force_and_a_dry_run_does_not(opened: Platform) -> None:
    asked: list[Mapping[str, int]] = []

    def enforcement(changed_us: Mapping[str, int]) -> list[str]:
        asked.append(changed_us)
        return ["users: in force at 2 of 2 gateways."]

    client = TestClient(make_operators_app(opened, lambda: Caller("till", "operator"), enforcement))
    body = {"value": {"name": "zoe", "owner": "shop"}, "reason": "test"}

    tried = client.post("/v1/users?dry_run=true", json=body).json()
    made = client.post("/v1/users", json=body).json()
    deleted = client.delete("/v1/users/zoe?version=1&reason=test").json()

    assert "enforcement" not in tried
    assert made["enforcement"] == deleted["enforcement"] == ["users: in force at 2 of 2 gateways."]
    assert asked == [{"users": made["changed_us"]}, {"users": deleted["changed_us"]}]


def test_a_service_without_zookeeper_says_that_it_cannot_know(operator: TestClient) -> None:
    made = operator.post("/v1/users", json={"value": {"name": "zoe", "owner": "shop"}, "reason": "test"}).json()

    assert made["enforcement"] == [NO_ZOOKEEPER]


def test_a_stale_version_is_a_conflict_that_names_the_current_one(operator: TestClient) -> None:
    operator.post("/v1/users", json=user("alice"))
    operator.put("/v1/users/alice", json={**user("alice", owner="till"), "version": 1})

    answers = [
        operator.put("/v1/users/alice", json={**user("alice", owner="shop"), "version": 1}),
        operator.delete("/v1/users/alice", params={"version": 1, "reason": "gone"}),
        operator.post("/v1/users", json=user("alice")),
    ]

    for answer in answers:
        assert failed(answer) == (409, "stale_version")
        assert answer.json()["error"]["details"]["current"] == 2


@pytest.mark.parametrize("token", [None, "", "x" * 32, "g" * 31, "ö" * 32])
def test_a_caller_without_a_token_learns_nothing(opened: Platform, token: str | None) -> None:
    client = client_with(opened, None)
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]

    for path in ("/v1/users", "/v1/users/alice", "/v1/gateway/changes/users", "/v1/history/users"):
        assert failed(client.get(path, headers=headers)) == (401, "no_token")


@pytest.mark.parametrize("body", [b"{", b"[" * 1000, b"[" + b"{}," * 300_000 + b"{}]", b"x" * (2 << 20)])
def test_the_body_of_a_request_without_a_token_is_not_read(opened: Platform, body: bytes) -> None:
    client = client_with(opened, None)
    for path in ("/v1/users", "/v1/gateway/rules", "/v1/nowhere"):
        assert failed(client.post(path, content=body)) == (401, "no_token")
    assert client.get("/openapi.json").status_code == 200
    metrics = client.get("/metrics")
    assert metrics.status_code == 200
    assert all(
        line.startswith(("#", "process_", "switchyard_build_info")) for line in metrics.text.splitlines()
    )  # nothing of the content


def test_gateways_and_operators_each_read_their_own_paths(operator: TestClient, gateway: TestClient) -> None:
    for path in ("/v1/users", "/v1/history/users"):
        assert failed(gateway.get(path)) == (403, "forbidden")
    assert failed(gateway.post("/v1/users", json=user("alice"))) == (403, "forbidden")
    for path in ("/v1/gateway/changes/users", "/v1/gateway/settings"):
        assert failed(operator.get(path)) == (403, "forbidden")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"value": {"name": "alice"}}',
        b'{"value": {"name": "alice"}, "reason": ""}',
        b'{"value": {"name": "a\\u0000"}, "reason": "x"}',
        b'{"value": {"name": "a\\ud800"}, "reason": "x"}',
        b'{"value": {"name": "alice", "password": "s3cr3t"}, "reason": "x"}',
        b'{"value": {"name": "alice", "super_user": "yes"}, "reason": "x"}',
        b'{"value": ' + b"[" * 5000 + b"]" * 5000 + b', "reason": "x"}',
    ],
)
def test_an_invalid_body_is_refused_without_repeating_it(operator: TestClient, body: bytes) -> None:
    answer = operator.post("/v1/users", content=body, headers={"Content-Type": "application/json"})

    assert failed(answer) == (422, "invalid")
    assert "s3cr3t" not in answer.text
    assert operator.get("/v1/users").json()["items"] == []


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_cross_site_request_changes_nothing(operator: TestClient, kind: str) -> None:
    # In Airflow a user's browser sends its session cookie along with requests from foreign pages.
    headers = {"Content-Type": kind} if kind else {}
    answer = operator.post("/v1/users", content=json.dumps(user("mallory", super_user=True)), headers=headers)
    # Without a type ours is the refusal: FastAPI before 0.132, as with Airflow 3.1, reads such a body as JSON.
    assert failed(answer) == ((422, "invalid") if kind else (415, "media_type"))
    assert operator.get("/v1/users").json()["items"] == []


SURROGATE = "\\ud800"
"""A lone surrogate in JSON, which no text contains."""


@pytest.mark.parametrize(
    ("token", "path", "body", "status"),
    [
        (OPERATOR, "/v1/passwords", f'{{"user": "{SURROGATE}", "password": "x", "reason": "x"}}', 404),
        (OPERATOR, "/v1/passwords", '{"user": "\\u0000", "password": "x", "reason": "x"}', 404),
        (OPERATOR, "/v1/passwords/generated", f'{{"user": "{SURROGATE}", "reason": "x"}}', 404),
        (
            GATEWAY,
            "/v1/gateway/rules/deletions",
            f'{{"user": "a", "filters": [{{"principal": "User:{SURROGATE}"}}]}}',
            200,
        ),
        (
            GATEWAY,
            "/v1/gateway/rules/deletions",
            f'{{"user": "a", "filters": [{{"resource_type": "topic", "name": "{SURROGATE}"}}]}}',
            200,
        ),
    ],
)
def test_a_name_that_databases_cannot_store_is_not_found(
    opened: Platform, token: str, path: str, body: str, status: int
) -> None:
    answer = client_with(opened, token).post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status


@pytest.mark.parametrize("path", ["/v1/users/%00", "/v1/history/users?key=%00", "/v1/users?group=%00"])
def test_no_entry_has_a_name_with_a_null_character(registry: Platform, path: str) -> None:
    answer = client_with(registry, OPERATOR).get(path)
    assert answer.json().get("items") == [] or failed(answer) == (404, "not_there")


def test_a_body_that_is_too_long_is_refused_before_it_is_read(operator: TestClient) -> None:
    ten_megabytes = b"x" * (10 << 20)
    by_pieces = iter([b"x" * (MAX_BODY_BYTES // 2)] * 3)

    assert failed(operator.post("/v1/users", content=ten_megabytes)) == (413, "too_long")
    assert failed(operator.post("/v1/users", content=by_pieces)) == (413, "too_long")


@pytest.mark.parametrize("name", ["a/b", "a b", "kafka/host@REALM", "a?b#c", "100%", "☃", "'; DROP TABLE x"])
def test_names_with_any_characters_have_a_path(operator: TestClient, name: str) -> None:
    operator.post("/v1/users", json=user(name))

    assert operator.get(f"/v1/users/{quote(name, safe='')}").json()["key"] == name


def test_lists_are_paged_and_filtered(operator: TestClient) -> None:
    for number in range(5):
        operator.post("/v1/users", json=user(f"user-{number}", groups=["odd" if number % 2 else "even"]))

    first = operator.get("/v1/users", params={"limit": 2, "group": "even"}).json()
    rest = operator.get("/v1/users", params={"limit": 2, "group": "even", "after": first["after"]}).json()

    assert [one["key"] for one in (*first["items"], *rest["items"])] == ["user-0", "user-2", "user-4"]
    assert rest["after"] is None
    assert failed(operator.get("/v1/users", params={"limit": 1001})) == (422, "invalid")
    assert failed(operator.get("/v1/users", params={"colour": "red"})) == (422, "invalid")


def test_a_dry_run_and_a_rule_for_an_unknown_user_write_nothing(operator: TestClient) -> None:
    rule = {"principal": "User:alice", "resource_type": "topic", "name": "orders", "operation": "read"}

    assert operator.post("/v1/users", params={"dry_run": True}, json=user("alice")).status_code == 201
    assert failed(operator.post("/v1/rules", json={"value": rule, "reason": "x"})) == (422, "invalid")

    assert operator.get("/v1/users").json()["items"] == operator.get("/v1/rules").json()["items"] == []


def test_a_password_is_accepted_and_never_shown(operator: TestClient, gateway: TestClient) -> None:
    operator.post("/v1/users", json=user("alice"))

    said = {"user": "alice", "password": "correct horse", "reason": "new"}
    answers = [operator.post("/v1/passwords", json=said), operator.get("/v1/history/users"), operator.get("/v1/users")]

    assert answers[0].json()["value"]["mechanisms"] == {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192}
    assert all("horse" not in answer.text and "stored_key" not in answer.text for answer in answers)
    assert "stored_key" in gateway.get("/v1/gateway/changes/users").text
    too_short = operator.post("/v1/passwords", json={**said, "password": "horse\n"})
    assert failed(too_short) == (422, "invalid")
    assert "horse" not in too_short.text


def test_a_change_that_omits_password_keys_keeps_them(operator: TestClient, gateway: TestClient) -> None:
    operator.post("/v1/users", json=user("alice"))
    operator.post("/v1/passwords", json={"user": "alice", "password": "correct horse", "reason": "new"})

    operator.put("/v1/users/alice", json={**user("alice", owner="till"), "version": 2})

    rows = gateway.get("/v1/gateway/changes/users").json()["rows"]
    assert rows[-1][2]["scram"] == rows[-2][2]["scram"] != {}


def test_a_gateway_reads_the_database_over_http(opened: Platform, operator: TestClient, gateway: TestClient) -> None:
    for name in ("alice", "bob"):
        operator.post("/v1/users", json=user(name))
    operator.delete("/v1/users/bob", params={"version": 1, "reason": "gone"})
    there, here = HttpSource(gateway, "users"), opened.source("users")

    read = there.changes(0, 2)

    assert read == here.changes(0, 2)
    assert there.changes(read.through_us, 10) == here.changes(read.through_us, 10)
    through_us = here.changes(0, 10).through_us
    assert there.digest(through_us) == here.digest(through_us)
    assert there.digest(through_us + 1) is None


def test_a_gateway_requests_settings_by_their_version(operator: TestClient, gateway: TestClient) -> None:
    value = {"type": "user_rate", "name": "alice", "value": 100}
    made = operator.post("/v1/settings", json={"value": value, "reason": "x"}).json()

    assert gateway.get("/v1/gateway/settings").json()["versions"]["user_rate"] == 1
    first = gateway.get("/v1/gateway/settings/user_rate").json()
    assert first == {"type": "user_rate", "version": 1, "settings": {"alice": 100}}
    assert gateway.get("/v1/gateway/settings/user_rate", params={"version": 1}).json()["settings"] is None
    operator.delete(f"/v1/settings/{made['key']}", params={"version": 1, "reason": "x"})
    assert gateway.get("/v1/gateway/settings/user_rate", params={"version": 1}).json()["settings"] == {}
    assert failed(gateway.get("/v1/gateway/settings/speed")) == (404, "not_there")


def test_unknown_paths_and_methods_have_the_error_shape(operator: TestClient) -> None:
    assert failed(operator.get("/v1/people")) == (404, "not_there")
    assert failed(operator.get("/v1/history/people")) == (404, "not_there")
    assert failed(operator.patch("/v1/users")) == (405, "method")


def test_the_api_describes_itself(operator: TestClient) -> None:
    paths = operator.get("/openapi.json").json()["paths"]

    for kind in ("users", "rules", "quotas", "topics", "clusters", "settings"):
        assert set(paths[f"/v1/{kind}"]) == {"get", "post"}


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(200, content=b"{"),
        httpx.Response(200, json={"rows": [["alice"]], "through_us": 0}),
        httpx.Response(200, json={"rows": [], "through_us": "0", "exact_from_us": 0, "deletions_from_us": 0}),
        httpx.Response(200, json=[]),
    ],
)
def test_an_unexpected_answer_of_the_platform_is_reported(answer: httpx.Response) -> None:
    client = httpx.Client(base_url="http://platform", transport=httpx.MockTransport(lambda _: answer))

    with client, pytest.raises(PlatformAwayError, match="http://platform"):
        HttpSource(client, "users").changes(0, 10)


@pytest.mark.parametrize(
    "text",
    ["", "gateway gw", f"admin a {GATEWAY}", "gateway gw s3cr3t", f"gateway a {GATEWAY}\noperator b {GATEWAY}"],
)
def test_invalid_tokens_are_named_by_their_line_only(text: str) -> None:
    with pytest.raises(TokenFileError) as refused:
        tokens.parse(text, "tokens")

    assert "s3cr3t" not in str(refused.value)
    assert GATEWAY not in str(refused.value)


def test_tokens_come_from_a_file_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(KNOWN)

    from_file = tokens.read(tmp_path / "tokens", {})
    from_variable = tokens.read(None, {tokens.VARIABLE: KNOWN})

    for caller_tokens in (from_file, from_variable):
        assert caller_tokens.caller(GATEWAY) == tokens.Caller("gw-1", "gateway")
    with pytest.raises(InvalidError, match="--tokens"):
        tokens.read(None, {})
    with pytest.raises(TokenFileError, match="cannot be read"):
        tokens.read(tmp_path / "away", {})


def test_tokens_cross_the_network_only_by_tls_or_by_choice() -> None:
    for host, encrypted, plain in (("127.0.0.1", False, False), ("0.0.0.0", True, False), ("10.0.0.1", False, True)):
        require_safe(host, encrypted, plain)
    with pytest.raises(InvalidError, match="--certificate"):
        require_safe("0.0.0.0", False, False)


def test_a_generated_password_is_returned_once(operator: TestClient, opened: Platform) -> None:
    operator.post("/v1/users", json=user("alice"))
    body = {"user": "alice", "reason": "new shop"}

    trial = operator.post("/v1/passwords/generated", json=body, params={"dry_run": True}).json()
    answer = operator.post("/v1/passwords/generated", json=body)
    again = operator.post("/v1/passwords/generated", json=body)
    another = operator.post("/v1/passwords/generated", json={**body, "replace": True}).json()["password"]

    password = answer.json()["password"]
    assert trial["password"] is None
    assert len(password) == 32
    assert password != another
    assert answer.headers["Cache-Control"] == "no-store"
    assert failed(again) == (422, "invalid")
    told = [operator.get("/v1/users").text, operator.get("/v1/history/users").text, again.text]
    assert not any(secret in text for text in told for secret in (password, another))
    kept = opened.read.get("users", "alice").entry
    assert kept is not None
    assert password not in kept.text()
    assert failed(operator.post("/v1/passwords/generated", json={**body, "user": "bob"})) == (404, "not_there")


def test_each_issued_client_id_is_different(operator: TestClient) -> None:
    operator.post("/v1/users", json=user("alice"))
    body = {"user": "alice", "topics": ["orders", "bills"], "reason": "two tills"}

    trial = operator.post("/v1/instances/issued", json=body, params={"dry_run": True})
    issued = [operator.post("/v1/instances/issued", json=body) for _ in range(2)]

    assert [answer.status_code for answer in (trial, *issued)] == [201] * 3
    values = [answer.json()["value"] for answer in issued]
    assert len({value["name"] for value in values}) == 2
    assert [(value["user"], value["topics"]) for value in values] == [("alice", ["bills", "orders"])] * 2
    found = operator.get("/v1/instances", params={"user": "alice", "topic": "bills"}).json()["items"]
    assert sorted(one["key"] for one in found) == sorted(value["name"] for value in values)
    assert failed(operator.post("/v1/instances/issued", json={**body, "user": "bob"})) == (422, "invalid")


def test_callers_authenticated_elsewhere_get_the_operators_paths_only(opened: Platform) -> None:
    def caller(request: Request) -> Caller:
        if "x-name" not in request.headers:
            raise HTTPException(401, "nobody")
        return Caller(request.headers["x-name"], "operator")

    client = TestClient(make_operators_app(opened, caller), raise_server_exceptions=False)
    known = {"X-Name": "carol"}

    assert client.post("/v1/users", json=user("alice"), headers=known).json()["by"] == "carol"
    for method, path in (("GET", "/v1/users"), ("POST", "/v1/users"), ("GET", "/openapi.json"), ("GET", "/v1/users/a")):
        assert failed(client.request(method, path)) == (401, "no_token"), path
    assert failed(client.get("/v1/gateway/changes/users", headers=known)) == (404, "not_there")
    assert "/v1/passwords/generated" in client.get("/openapi.json", headers=known).json()["paths"]
