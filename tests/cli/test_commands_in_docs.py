"""Every command that README and the docs have for copying is one that the command line takes."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from ha_core.cli import app as tree

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PLACEHOLDERS = re.compile(r"…|\[|\||<")


def commands_in(text: str) -> Iterator[str]:
    """Lines of blocks that begin with `switchyard`, without a prompt, what is continued joined, no comment behind."""
    for block in _BLOCK.findall(text):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            found = line.strip().removeprefix("$ ")
            if found.startswith("switchyard ") and not _PLACEHOLDERS.search(found.partition(" # ")[0]):
                yield found


@cache
def whole() -> Any:
    """The tree; typer has no public type for what it makes of it."""
    return typer.main.get_command(tree.build())


def parse(line: str) -> None:
    """:raises Exception: typer's, with what the command line does not take."""
    words = [word for word in shlex.split(line, comments=True)[1:] if word != "&"]
    if ">" in words:
        words = words[: words.index(">")]
    command, parent = whole(), None
    name: str | None = "switchyard"
    while True:
        here = command.make_context(name, words, parent=parent)
        if not isinstance(command, TyperGroup):
            return
        # What a group has not taken for itself is the command below it, and its words.
        left = [*here._protected_args, *here.args]
        if not left and command.invoke_without_command:
            return
        (name, command, words), parent = command.resolve_command(here, left), here


def shown() -> list[tuple[str, str]]:
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [(file.name, line) for file in files for line in commands_in(file.read_text("utf-8"))]


@pytest.mark.parametrize(("file", "line"), shown())
def test_a_command_that_the_docs_show_is_taken_as_it_stands(file: str, line: str) -> None:
    parse(line)


def test_a_command_with_an_option_that_it_has_not_is_found() -> None:
    assert len(shown()) > 20  # or none would be looked at
    with pytest.raises(Exception, match="No such option"):
        parse("switchyard mirrors --yes")
