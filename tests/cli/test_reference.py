"""The page of commands is written from the commands, and shows their text as it is."""

import re
from pathlib import Path

import pytest
import typer

from ha_core.cli import reference
from ha_core.present import problems


def test_the_page_of_commands_is_up_to_date() -> None:
    assert reference.PAGE.read_text("utf-8") == reference.page(), f"renew it: {reference.RENEWAL}"


def test_the_page_names_no_place_of_this_machine() -> None:
    assert str(Path(__file__).parents[2]) not in reference.page()


def test_a_command_shows_what_it_requires_and_the_help_of_each_option(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()

    @app.command(help="Move *one* topic.")
    def status(
        topic: str,
        target: str = typer.Option(..., "--to", help="A cluster, or <none>."),
        limit: int = typer.Option(7, help="As in `other`."),
    ) -> None: ...

    app.command("other")(lambda: None)
    monkeypatch.setattr(reference, "build", lambda: app)
    shown = reference.page()

    assert "### switchyard status\n\nMove \\*one\\* topic.\n\n```\nswitchyard status TOPIC --to <str>\n```\n" in shown
    assert re.findall("^- `--.*", shown, re.MULTILINE) == [
        "- `--to <str>`: A cluster, or \\<none>.",
        "- `--limit <int>`: As in `other`.  [default: 7]",
    ]


def test_each_exit_code_has_a_row() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", reference.page(), re.MULTILINE)] == [
        *range(7),
        70,
        130,
        143,
    ]


def test_the_page_of_problem_codes_is_up_to_date() -> None:
    assert problems.PAGE.read_text("utf-8") == problems.codes_page(), f"renew it: {reference.RENEWAL}"
