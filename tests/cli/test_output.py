"""Output for people: no id is cut off in a narrow terminal, and a refusal is printed once."""

from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.exits import OUT_OF_REACH
from ha_core.cli.output import _table
from ha_core.kafka.admin import Admin
from ha_core.kafka.probe import Probe
from ha_core.model import Cluster
from ha_core.present.page import Table
from tests.cli.invoking import run, seeded, use

SWITCH = ("switch", "user:alice", "--from", "east", "--to", "west", "--reason", "test", "--yes")
SAID = "Origin east (127.0.0.1:1) cannot be reached: timed out."


def test_an_id_is_folded_and_not_cut_off_in_a_narrow_terminal() -> None:
    identifier, out = "switch-20261130-100000-abcdef01", StringIO()
    rows = [(identifier, "succeeded", "a reason of some words that needs much room of its own")]

    Console(file=out, width=40).print(_table(Table(("operation", "result", "reason"), rows)))

    head, *lines = out.getvalue().splitlines()
    width = head.index("result")
    assert "".join(line[:width].strip() for line in lines) == identifier


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters that do not answer."""
    monkeypatch.setattr(Admin, "probe", lambda _self, **_options: Probe(False, "timed out"))
    clusters = (Cluster(name=name, bootstrap="127.0.0.1:1", default=name == "east") for name in ("east", "west"))
    use(seeded(*clusters), monkeypatch)


@pytest.mark.usefixtures("refused")
def test_a_refusal_is_printed_once_for_people_and_whole_in_json() -> None:
    ended = CliRunner().invoke(build(), list(SWITCH))
    code, answer = run(*SWITCH)

    assert (ended.exit_code, code) == (OUT_OF_REACH, OUT_OF_REACH)
    assert (ended.stdout + ended.stderr).count(SAID) == 1
    assert "Nothing was changed. Refused, see above: " in " ".join(ended.stderr.split())
    assert SAID in answer["error"]
