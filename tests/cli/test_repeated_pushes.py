"""`switchyard history push --every`: what it needs is away for a while."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ha_core.cli import command
from ha_core.cli.app import build
from ha_core.model import Cluster
from ha_core.operations.audit.posting import Receiver
from ha_core.operations.audit.pushing import PushReport, push
from ha_core.operations.engine.environment import Environment
from ha_core.store.errors import StoreUnavailableError
from tests.cli.invoking import run, seeded
from tests.cli.recorded import ended

TO = ("history", "push", "--to", "https://siem.example/in")


def test_a_push_that_repeats_goes_on_after_zookeeper_or_the_file_of_the_token_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a receiver, ZooKeeper that is away at the second push, and a token's file that is away at the third
    store, token = seeded(Cluster(name="east", bootstrap="127.0.0.1:1", default=True)), tmp_path / "token"
    token.write_text("t0ken\n")
    ended(store, "switch-1")
    pauses, posts = list[float](), list[str]()

    def pushed(environment: Environment, name: str, post: Callable[[bytes], None]) -> PushReport:
        if len(pauses) == 1:
            ended(store, "switch-2")
            raise StoreUnavailableError("no ZooKeeper answers")
        return push(environment, name, post)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            token.unlink()
        elif len(pauses) == 3:
            token.write_text("another\n")
        elif len(pauses) == 4:
            raise KeyboardInterrupt

    def connect(_connection: object, by: str, progress: Callable[[str], None]) -> Environment:
        return Environment(store=store.client(), by=by, progress=progress, sleep=sleep)

    monkeypatch.setattr(command, "connect", connect)
    monkeypatch.setattr("ha_core.cli.commands.history.push", pushed)
    monkeypatch.setattr(Receiver, "post", lambda self, body: posts.append(f"{self.token} {b'switch-2' in body}"))

    # When it repeats
    said = CliRunner().invoke(build(), [*TO, "--token-file", str(token), "--every", "1"])

    # Then each operation is pushed once, with the token of that time
    assert posts == ["t0ken False", "another True"]
    assert "no ZooKeeper answers; again in 1 s" in said.stderr
    assert "cannot be read: FileNotFoundError" in said.stderr


def test_a_repeated_push_that_is_called_wrongly_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = seeded(Cluster(name="east", bootstrap="127.0.0.1:1", default=True))
    monkeypatch.setattr(command, "connect", lambda _c, by, progress: Environment(store.client(), by, progress=progress))

    assert run(*TO, "--token-file", "/nowhere", "--every", "600")[0] == 2
