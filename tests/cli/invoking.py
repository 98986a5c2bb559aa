"""Runs commands in-process, on a store in memory."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from ha_core.cli import command
from ha_core.cli.app import build
from ha_core.model import Document
from ha_core.operations.engine.environment import Environment, utc_now
from ha_core.store.commits import StateChange, key_of
from stack.memory_store import MemoryStore


def seeded(*documents: Document) -> MemoryStore:
    """A store at revision 1 with these documents."""
    store = MemoryStore()
    expected: dict[tuple[type[Document], str], int | None] = {key_of(put): None for put in documents}
    store.commit(StateChange(change_id="seed", puts=documents, expected=expected))
    return store


def use(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, now: Callable[[], str] = utc_now) -> None:
    """Make commands open sessions of this store."""

    def connect(_connection: object, by: str, progress: Callable[[str], None]) -> Environment:
        return Environment(store=store.client(), by=by, progress=progress, session_timeout_s=0.5, now=now)

    monkeypatch.setattr(command, "connect", connect)


def run(*words: str) -> tuple[int, Any]:
    """Exit code and document of a command with --json."""
    ended = CliRunner().invoke(build(), [*words, "--json"])
    return ended.exit_code, json.loads(ended.stdout)


def document(*words: str) -> Any:
    """Document of a command with --json, with any exit code."""
    return run(*words)[1]


def shown(*words: str) -> str:
    """Output for people of a command that succeeds."""
    ended = CliRunner().invoke(build(), list(words))
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


def problems() -> list[dict[str, Any]]:
    """Problems in `status --check`, and those that follow from them."""
    return flat(document("status", "--check")["problems"])


def flat(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for problem in problems for one in (problem, *problem["follows"])]
