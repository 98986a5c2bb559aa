"""Histories with operations that have ended, and their exports."""

from typing import Any

from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.model import HistoryEntry, Scope
from ha_core.model.evidence import Cut, MoveEvidence
from ha_core.model.move_request import MoveRequest, MoveSet
from ha_core.plan.facts.judged import judgement
from ha_core.plan.facts.verdict import warning
from stack.memory_store import MemoryStore
from tests.kit.operations import a_switch


def ended(store: MemoryStore, name: str, at: str = "2026-11-21T10:00:05.000Z", **said: Any) -> None:
    """A switch that has ended, with one entry besides its first."""
    operation = a_switch(id=name, state="succeeded", ended=at, revision=7, result="cut over and verified", **said)
    entries = said.pop("entries", ())
    epoch = store.create_operation(operation, [f"topic:{name}"], first())
    for entry in entries:
        store.append_history(name, epoch, entry)
    store.release_locks(name, epoch, at)


def first() -> HistoryEntry:
    verdicts = [warning("copy-lags", "topic orders", "Its copy lacks 12 records.", number=12, unit="records")]
    figures: dict[str, Any] = {"lag_records": {"billing": 40, "audit": None}, "records_per_s": 81.5}
    more: dict[str, Any] = {"rate_from": "two looks", "expected_fence": "about 54 ms", "creates": {"orders": 3}}
    judged = judgement("2026-11-21T10:00:00.000Z", 6, verdicts, **figures, **more)
    detail = {"by": "x", "reason": "r", "judged": [judged.model_dump(mode="json")]}
    return HistoryEntry(at="2026-11-21T10:00:00.000Z", epoch=0, step="start", outcome="done", detail=detail)


def lines(*words: str) -> list[str]:
    ended_run = CliRunner().invoke(build(), ["history", "export", "--ndjson", *words])
    assert ended_run.exit_code == 0, ended_run.stderr
    return ended_run.stdout.splitlines()


def audited(store: MemoryStore) -> str:
    """A switch of which everything is known."""
    request = MoveRequest(scope=Scope(users=("ann",), topics=("orders",)), origin="east", target="west", reason="INC-7")
    said: dict[str, Any] = {
        "asked_by": "alice",
        "approved_by": "bob",
        "asked_at": "2026-11-21T09:58:00.000Z",
        "approved_at": "2026-11-21T09:59:00.000Z",
        "run_url": "https://airflow.example/dags/switch/runs/r",
        "bundle_version": "4f2a",
        "by": "alice, approved by bob (airflow:switch/r)",
        "reason": "INC-7",
        "request": request,
        "moves": MoveSet(topics=("orders",), groups=("billing",)),
        "evidence": MoveEvidence(cuts={"orders": (Cut(0, 1234, 0, 1),)}, ended_mirrors_verified=True),
    }
    name = "switch-20261121-100000-abcd"
    operation = a_switch(id=name, state="succeeded", ended="2026-11-21T10:00:05.000Z", revision=7, **said)
    operation = operation.model_copy(update={"result": "cut over and verified; `switchyard mirror list` shows copies"})
    epoch = store.create_operation(operation, ["topic:orders"], first())
    clients = {"reported": ["gw-1"], "not_known_of": ["gw-2"], "refused": 5, "users": {"ann": [5, 61.2]}}
    detail = {"revision": 7, "fenced_ms": 54.3}
    at = "2026-11-21T10:00:04.000Z"
    for step, some in (("cut_over", detail), ("clients", {"clients": clients})):
        entry = HistoryEntry(at=at, epoch=0, step=step, outcome="done", ms=80.0, detail=some)
        store.append_history(name, epoch, entry)
    store.release_locks(name, epoch, "2026-11-21T10:00:05.000Z")
    return name
