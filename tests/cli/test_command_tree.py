import json
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from ha_core.cli import app as tree
from ha_core.cli import command
from ha_core.cli.exits import BAD_INPUT, BUSY, DEFECT, FAILURE, OUT_OF_REACH, failure
from ha_core.kafka.errors import ClusterUnreachableError
from ha_core.operations.engine.errors import RefusedError, StepFailedError
from ha_core.plan.facts.verdict import Verdict
from ha_core.store.errors import LockedError, NoStateError, StoreUnavailableError

runner = CliRunner()


def test_the_help_lists_the_exit_codes() -> None:
    shown = runner.invoke(tree.build(), ["--help"])

    assert shown.exit_code == 0
    assert "Exit codes: 0 done" in shown.stdout


def test_a_called_command_is_found_without_its_import() -> None:
    tree.build()

    for one in command.COMMANDS:
        found = tree.module_of([*one.words.split(), "--reason", "r"])
        assert found == ("" if one.words in tree.GROUPS else one.run.__module__.rpartition(".")[2]), one.words
    for words in ([], ["--help"], ["clusters"], ["topics"], ["history", "switch-1"], ["stack", "up"], ["no-such"]):
        assert tree.module_of(words) == ""


def test_a_switch_loads_no_other_commands_modules() -> None:
    """Clients waited for the imports of MirrorMaker 2's flows, of the platform and of Prometheus."""
    program = (
        "import sys; sys.argv[1:] = ['switch', '--help']\n"
        "from ha_core.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert "Usage: switchyard switch" in ended.stdout
    loaded = set(ended.stderr.split())
    assert "ha_core.cli.commands.moves" in loaded
    others = {"ha_core.mirror_maker", "ha_core.mirror_client", "ha_core.cli.commands.mirrors", "prometheus_client"}
    assert not loaded & others


def test_a_broken_plug_in_does_not_break_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_command_with_a_missing_argument_exits_with_code_2(words: list[str]) -> None:
    assert runner.invoke(tree.build(), words).exit_code == 2


@pytest.mark.parametrize("words", [["status"], ["bindings", "list"]])
def test_an_unreachable_zookeeper_is_one_clear_error_with_its_own_exit_code(words: list[str]) -> None:
    ended = runner.invoke(tree.build(), [*words, "--zookeeper", "127.0.0.1:1", "--json"])

    assert ended.exit_code == OUT_OF_REACH
    assert "127.0.0.1:1" in json.loads(ended.stdout)["error"]
    assert "Traceback" not in ended.stderr


def test_a_missing_setting_is_named_when_its_default_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(*_: object, **_options: object) -> None:
        raise StoreUnavailableError("no ZooKeeper answers at 127.0.0.1:2181")

    monkeypatch.setattr(command, "connect", silent)
    monkeypatch.delenv("SWITCHYARD_ZOOKEEPER", raising=False)
    assert "SWITCHYARD_ZOOKEEPER" in runner.invoke(tree.build(), ["status"]).stderr

    monkeypatch.setenv("SWITCHYARD_ZOOKEEPER", "zk-1:2181")
    assert "SWITCHYARD_ZOOKEEPER" not in runner.invoke(tree.build(), ["status"]).stderr


def test_a_host_name_that_does_not_resolve_is_reported_as_such() -> None:
    ended = runner.invoke(tree.build(), ["status", "--zookeeper", "no-such-name.invalid:2181"])

    assert ended.exit_code == OUT_OF_REACH
    assert "'no-such-name.invalid' does not resolve" in ended.stderr


def test_a_root_that_is_no_path_is_bad_input() -> None:
    ended = runner.invoke(tree.build(), ["status", "--zookeeper", "127.0.0.1:1", "--root", "switchyard"])

    assert ended.exit_code == BAD_INPUT
    assert "--root" in ended.stderr


def test_the_version_is_shown_without_a_command() -> None:
    shown = runner.invoke(tree.build(), ["--version"])

    assert shown.exit_code == 0
    assert shown.stdout.startswith("switchyard ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RefusedError("no"), BAD_INPUT),
        (RefusedError("no", [Verdict("error", "locked", "topic t", "", "", "busy")]), BUSY),
        (RefusedError("no", [Verdict("error", "unreachable-cluster", "cluster c", "", "", "away")]), OUT_OF_REACH),
        (
            RefusedError(
                "no",
                [
                    Verdict("error", "unreachable-cluster", "c", "", "", "away"),
                    Verdict("error", "unknown-topic", "t", ""),
                ],
            ),
            BAD_INPUT,
        ),
        (LockedError("topic:t", "switch-1", "me", "now"), BUSY),
        (StoreUnavailableError("away"), OUT_OF_REACH),
        (ClusterUnreachableError("east", "east:1", "is away"), OUT_OF_REACH),
        (NoStateError("nothing there"), BAD_INPUT),
        (StepFailedError("failed"), FAILURE),
        (ZeroDivisionError(), DEFECT),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert failure(error)[1] == code
