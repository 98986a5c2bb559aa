import json
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from ha_core.cli import app as tree

runner = CliRunner()


def test_every_command_group_is_there_with_its_help() -> None:
    shown = runner.invoke(tree.build(), ["--help"])

    assert shown.exit_code == 0
    for name in [
        "status",
        "bindings",
        "usage",
        "switch",
        "resume",
        "undo",
        "mask",
        "unmask",
        "history",
        "topic",
        "group",
        "groups",
        "topics",
        "clusters",
        "facts",
        "migrate-from-fault",
        "origins",
        "age",
    ]:
        assert name in shown.stdout


def test_a_broken_plug_in_leaves_the_other_commands_working(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint(name="broken", value="no_such_module:app", group=tree.PLUGINS)
    monkeypatch.setattr(tree, "entry_points", lambda group: [broken])
    built = tree.build()

    assert runner.invoke(built, ["switch", "--help"]).exit_code == 0
    called = runner.invoke(built, ["broken", "up", "--json"])
    assert called.exit_code == 1
    assert "no_such_module" in called.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["switch", "user:alice", "--from", "east", "--to", "west"],
        ["switch", "--from", "east", "--to", "west", "--reason", "test"],
        ["mask", "east"],
        ["migrate-from-fault", "orders", "--from", "east", "--to", "west", "--reason", "test"],
        ["migrate-from-fault", "--from", "east", "--to", "west", "--unread", "wait", "--reason", "test"],
        ["usage", "declare", "alice"],
        ["bindings", "set", "user:alice"],
        ["no-such-command"],
    ],
)
def test_a_command_with_something_missing_ends_with_code_2(words: list[str]) -> None:
    assert runner.invoke(tree.build(), words).exit_code == 2


@pytest.mark.parametrize("words", [["status"], ["bindings", "list"]])
def test_a_zookeeper_out_of_reach_is_one_clear_paragraph_and_code_2(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = runner.invoke(tree.build(), [*words, "--zookeeper", "127.0.0.1:1", "--json"])

    assert ended.exit_code == 2
    assert "127.0.0.1:1" in json.loads(ended.stdout)["error"]
    assert "Traceback" not in ended.stderr
