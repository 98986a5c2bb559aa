"""Options that verdicts name as the way out exist where the verdicts are shown."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from ha_core.cli.app import build
from ha_core.operators.labels import in_labels

SETTINGS = Path("ha_core/plan/preflight/settings.py")


@pytest.mark.parametrize("words", [("switch",), ("migrate",), ("migrate-from-fault",), ("mirror", "link")])
def test_each_command_that_moves_or_copies_takes_the_options_of_objections_to_settings(words: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(build())
    for word in words:
        command = command.commands[word]
    taken = {name for one in command.params for name in one.opts}

    named = set(re.findall(r"[ {](--leave[a-z-]*)", SETTINGS.read_text("utf-8")))

    assert named == {"--leave-setting"}
    assert named <= taken


def test_a_form_has_its_own_name_for_that_option() -> None:
    text = "Nothing. To use the default of west: --leave-setting max.message.bytes."

    labelled = in_labels(text, {"settings_left_alone": "Settings left alone"})

    assert labelled == 'Nothing. To use the default of west: "Settings left alone" max.message.bytes.'
