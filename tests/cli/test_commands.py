"""Commands on the store in memory; two registered clusters at which nobody listens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ha_core.cli import session
from ha_core.cli.app import build
from ha_core.model import Cluster, Document, Extent, Topic
from ha_core.moves.context import Environment
from ha_core.store import Change, MemoryStore

CLUSTERS = (
    Cluster(name="east", bootstrap="127.0.0.1:1", default=True),
    Cluster(name="west", bootstrap="127.0.0.1:1"),
)
MOVED = Topic(
    name="orders",
    writer="west",
    partitions={
        0: (
            Extent(cluster="east", start=0, end=9, base=0, term=0),
            Extent(cluster="west", start=9, end=None, base=0, term=1),
        )
    },
)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore()
    puts = (*CLUSTERS, MOVED)
    expected: dict[tuple[type[Document], str], int | None] = {(type(put), put.name): None for put in puts}
    store.commit(Change(change_id="seed", puts=puts, expected=expected))

    def connect(_connection: object, by: str, progress: Callable[[str], None]) -> Environment:
        return Environment(store=store.client(), by=by, progress=progress, session_timeout_s=0.5)

    monkeypatch.setattr(session, "connect", connect)
    return store


def run(*words: str) -> tuple[int, Any]:
    ended = CliRunner().invoke(build(), [*words, "--json"])
    return ended.exit_code, json.loads(ended.stdout)


def shown(*words: str) -> str:
    ended = CliRunner().invoke(build(), list(words))
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


@pytest.mark.usefixtures("store")
def test_status_has_clusters_gateways_operations_and_locks() -> None:
    code, status = run("status")

    assert code == 0
    assert status["revision"] == 1
    assert [(c["name"], c["reachable"]) for c in status["clusters"]] == [("east", False), ("west", False)]
    assert (status["gateways"], status["operations"], status["locks"]) == ([], [], [])
    assert "not reachable" in shown("status")


def test_a_binding_is_set_listed_and_deleted(store: MemoryStore) -> None:
    assert run("bindings", "set", "user:alice##billing", "west")[0] == 0
    assert run("bindings", "list")[1]["bindings"]["alice"]["groups"] == {"billing": "west"}
    assert "alice##billing" in shown("bindings", "list", "alice")

    assert run("bindings", "delete", "user:alice##billing")[0] == 0

    assert store.load().bindings == {}


def test_a_declared_file_is_shown_by_a_dry_run_and_then_applied_once(store: MemoryStore, tmp_path: Path) -> None:
    file = tmp_path / "team.yaml"
    file.write_text("bindings: {alice: {cluster: east}, bob: {cluster: west}}")

    code, plan = run("bindings", "set", "--file", str(file), "--dry-run")
    assert code == 0
    assert [d["user"] for d in plan["differences"]] == ["alice", "bob"]
    assert store.load().revision == 1

    code, report = run("bindings", "set", "--file", str(file))
    assert (code, report["result"], report["revision"]) == (0, "succeeded", 2)
    code, again = run("bindings", "set", "--file", str(file))
    assert (code, again["differences"]) == (0, [])
    assert store.load().revision == 2


def test_a_binding_of_somebody_in_use_needs_a_yes(store: MemoryStore) -> None:
    assert run("usage", "declare", "alice", "--topic", "orders", "--group", "billing")[0] == 0

    code, refused = run("bindings", "set", "user:alice", "west")
    assert (code, refused["result"]) == (2, "refused")
    assert store.load().bindings == {}

    assert run("bindings", "set", "user:alice", "west", "--yes")[0] == 0
    assert store.load().bindings["alice"].cluster == "west"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("bindings", "set", "user:alice", "north"), "'north'"),
        (("bindings", "set", "alice", "east"), "user:NAME"),
        (("bindings", "set", "topic:orders", "east"), "bindings are of users"),
        (("bindings", "delete", "user:alice"), "no binding"),
        (("bindings", "set", "--file", "no-such-file.yaml"), "no-such-file.yaml"),
        (("mask", "north", "--reason", "test"), "'north'"),
        (("mask", "east", "--reason", " "), "--reason"),
        (("history", "no-such-operation"), "no-such-operation"),
        (("resume", "no-such-operation"), "no-such-operation"),
        (("undo", "no-such-operation"), "no-such-operation"),
        (("topic", "no-such-topic"), "no-such-topic"),
        (("clusters", "remove", "north"), "'north'"),
        (("clusters", "remove", "west"), "topic orders"),
        (("clusters", "add", "North", "--bootstrap", "a:1"), "North"),
        (("switch", "alice", "--from", "east", "--to", "west", "--reason", "test"), "user:NAME"),
        (("switch", "user:a", "--from", "east", "--to", "west", "--reason", ""), "reason"),
        (("switch", "user:a", "--from", "east", "--to", "west", "--reason", "t", "--mode", "soft"), "soft"),
        (
            ("switch", "user:a", "--from", "east", "--to", "west", "--reason", "t", "--drain-timeout", "0"),
            "drain-timeout",
        ),
        (("switch", "user:a", "--from", "east", "--to", "west", "--reason", "t", "--yes"), "cannot be reached"),
    ],
)
def test_bad_input_ends_with_code_2_and_one_paragraph(words: tuple[str, ...], error: str) -> None:
    code, data = run(*words)

    assert code == 2
    assert error in data["error"]
    assert "\n" not in data["error"]


def test_mask_and_history_say_who_did_what_and_why(store: MemoryStore) -> None:
    code, report = run("mask", "west", "--reason", "power failure", "--force")

    assert (code, report["result"], report["depends"]["written"]) == (0, "succeeded", ["orders"])
    _, again = run("mask", "west", "--reason", "power failure")
    assert (again["changed"], again["operation"]) == (False, None)
    (operation,) = run("history")[1]["operations"]
    assert (operation["kind"], operation["reason"]) == ("mask", "power failure")
    assert operation["by"].startswith("cli:")
    _, detail = run("history", operation["id"])
    assert [entry["step"] for entry in detail["history"]] == ["mask", "mask", "serve", "serve"]
    assert operation["id"] in shown("history")


def test_a_cluster_that_is_written_is_masked_by_force_only_and_who_depends_on_it_is_said_before(
    store: MemoryStore,
) -> None:
    before = store.load()

    assert "1 topics are written there: orders" in shown("mask", "west", "--reason", "test", "--dry-run")
    code, refused = run("mask", "west", "--reason", "test")

    assert code == 2
    assert "orders" in refused["error"]
    assert "--force" in refused["error"]
    assert store.load() == before
    assert run("mask", "east", "--reason", "test")[0] == 0


@pytest.mark.usefixtures("store")
def test_a_topic_is_drawn_for_people_and_given_whole_to_machines() -> None:
    assert "west [9, …) → 0 term 1" in shown("topic", "orders")
    assert run("topic", "orders")[1]["map"]["partitions"]["0"][1]["cluster"] == "west"


def test_a_defect_is_one_line_that_names_the_debug_option(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(_store: MemoryStore) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(MemoryStore, "load", defect)

    ended = CliRunner().invoke(build(), ["status", "--json"])

    assert ended.exit_code == 1
    assert "--debug" in json.loads(ended.stdout)["error"]
    assert "Traceback" not in ended.stderr
