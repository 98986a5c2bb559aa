"""The command line accepts every command that README and the docs show for copying."""

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
    """Lines of code blocks that begin with `switchyard`, without prompt and comment, continued lines joined."""
    for block in _BLOCK.findall(text):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            found = line.strip().removeprefix("$ ")
            if found.startswith("switchyard ") and not _PLACEHOLDERS.search(found.partition(" # ")[0]):
                yield found


@cache
def whole() -> Any:
    """The command tree; typer has no public type for it."""
    return typer.main.get_command(tree.build())


def parse(line: str) -> None:
    """:raises Exception: typer's, with the rejected option or argument."""
    words = [word for word in shlex.split(line, comments=True)[1:] if word != "&"]
    if ">" in words:
        words = words[: words.index(">")]
    command, parent = whole(), None
    name: str | None = "switchyard"
    while True:
        here = command.make_context(name, words, parent=parent)
        if not isinstance(command, TyperGroup):
            return
        # Arguments that the group has not consumed are a command below it, with its arguments.
        left = [*here._protected_args, *here.args]
        if not left and command.invoke_without_command:
            return
        (name, command, words), parent = command.resolve_command(here, left), here


def shown() -> list[tuple[str, str]]:
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [(file.name, line) for file in files for line in commands_in(file.read_text("utf-8"))]


@pytest.mark.parametrize(("file", "line"), shown())
def test_a_command_in_the_docs_is_accepted_as_written(file: str, line: str) -> None:
    parse(line)


def test_an_unknown_option_in_a_command_is_found() -> None:
    assert len(shown()) > 20  # otherwise nothing would be checked
    with pytest.raises(Exception, match="No such option"):
        parse("switchyard mirrors --yes")
