"""Access to a gateway's pages for operators, and the form of queries."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.config import Http, load
from gateway.model.topology import Topology
from gateway.process.operator_pages import pages
from gateway.session.snapshot import Snapshot
from ha_core.metrics.http import Asked
from ha_core.model import Cluster, View

TOKEN = "a-secret-of-operators"


def ask(http: Http, path: str, token: str = "", host: str = "", **fields: str) -> tuple[int, Any]:
    view = View(revision=3, clusters={"east": Cluster(name="east", bootstrap="e:1")})
    gateway: Any = SimpleNamespace(
        clients=SimpleNamespace(open=set()), config=SimpleNamespace(id="gw-1"), snapshot=Snapshot(view, Topology())
    )
    return pages(gateway, http)[path](Asked(fields, token, host))


@pytest.fixture
def guarded(tmp_path: Path) -> Http:
    """As read from a configuration with a token."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "id: gw-1\nzookeeper: {hosts: 'zk:2181'}\nauthentication: {anonymous: true}\n"
        "http: {host: 0.0.0.0, token_file: token}\n"
    )
    return load(file).http


def test_on_loopback_no_token_is_needed() -> None:
    assert ask(Http(), "/connections") == (200, {"gateway": "gw-1", "total": 0, "connections": []})


@pytest.mark.parametrize(
    ("host", "status"), [("127.0.0.1", 200), ("localhost", 200), ("::1", 200), ("rebound.example", 403)]
)
def test_on_loopback_a_request_with_a_foreign_host_name_is_refused(host: str, status: int) -> None:
    # With DNS rebinding a browser sends the foreign site's name as Host, although it resolves to loopback
    assert ask(Http(), "/connections", host=host)[0] == status


def test_beyond_loopback_pages_are_refused_without_a_token_file() -> None:
    status, body = ask(Http(host="0.0.0.0"), "/connections")
    assert status == 403
    assert "http.token_file" in body["error"]


@pytest.mark.parametrize(("shown", "status"), [("", 401), ("another", 401), ("ü", 401), (TOKEN, 200)])
def test_with_a_token_file_only_callers_with_the_token_are_answered(guarded: Http, shown: str, status: int) -> None:
    assert ask(guarded, "/connections", shown)[0] == status
    assert ask(guarded, "/explain", shown, user="ann", topic="orders")[0] == status


@pytest.mark.parametrize("fields", [{"limit": "0"}, {"limit": "10001"}, {"limit": "x"}, {"colour": "red"}])
def test_an_unknown_field_of_a_connections_query_is_named(fields: dict[str, str]) -> None:
    status, body = ask(Http(), "/connections", **fields)
    assert status == 400
    assert next(iter(fields)) in body["error"]


@pytest.mark.parametrize(
    "fields",
    [{}, {"user": "ann"}, {"topic": "t"}, {"user": "ann", "topic": "t", "group": "g"}, {"user": "ann", "topik": "t"}],
)
def test_an_explanation_needs_a_user_and_one_topic_or_group(fields: dict[str, str]) -> None:
    assert ask(Http(), "/explain", **fields)[0] == 400


def test_an_invalid_address_is_named() -> None:
    status, body = ask(Http(), "/explain", user="ann", topic="t", address="here")
    assert (status, "'here'" in body["error"]) == (400, True)


def test_an_explanation_names_the_deciding_rule() -> None:
    status, body = ask(Http(), "/explain", user="ann", topic="orders")
    assert (status, body["revision"], body["leading"]["cluster"], body["leading"]["by"]) == (200, 3, "east", "default")
