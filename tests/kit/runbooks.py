"""Runbooks of `docs/runbooks` as scripts: their commands, the pasted answers, and the faults to plant.

A block of a page that begins with ```` ```console ```` is run: a line after `$ ` is a command, and the lines below it
are its answer. `…` stands for any text, and a line `…` for any lines. Blanks of any width are equal. A comment
`<!-- test: kill cluster/east -->` is an order to the stack of the test, which readers do not see.
"""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_ORDER = re.compile(r"<!-- test: (.+) -->")
_OPERATION = re.compile(r"\b[a-z]+(?:-[a-z]+)*-\d{8}-\d{6}-[0-9a-f]{4}\b")
_PATIENCE_S = 90.0
_PAUSE_S = 1.0
_LOOKS = ("status", "mirrors", "topics", "topic", "groups", "history", "explain", "connections", "migrations", "flows")
"""Commands that change nothing: they are repeated until they answer as the page says."""


class Order(NamedTuple):
    """For the stack of the test: a verb and a part."""

    line: int
    text: str


class Command(NamedTuple):
    """:ivar answer: pasted lines; empty: any answer."""

    line: int
    text: str
    answer: tuple[str, ...]

    @property
    def looks(self) -> bool:
        words = self.text.split()
        return words[0] == "switchyard" and (words[1] in _LOOKS or "--dry-run" in words)


def script(page: str) -> Iterator[Order | Command]:
    """
    :raises ValueError: an answer comes before any command.
    """
    lines = iter(enumerate(page.splitlines(), start=1))
    for number, line in lines:
        if order := _ORDER.fullmatch(line.strip()):
            yield Order(number, order[1])
        elif line.strip() == "```console":
            yield from _commands(lines)


def _commands(lines: Iterator[tuple[int, str]]) -> Iterator[Command]:
    found: list[tuple[int, str, list[str]]] = []
    for number, line in lines:
        if line.strip() == "```":
            break
        if line.startswith("$ "):
            found.append((number, line[2:], []))
        elif not found:
            raise ValueError(f"line {number} is an answer without a command: {line}")
        elif found[-1][1].endswith("\\") and not found[-1][2]:
            found[-1] = number, found[-1][1][:-1].rstrip() + " " + line.strip(), []
        else:
            found[-1][2].append(line)
    yield from (Command(number, text, tuple(answer)) for number, text, answer in found)


def answers(output: str, answer: tuple[str, ...]) -> bool:
    """Whether all pasted lines stand in the output, in their order."""
    lines = iter([" ".join(line.split()) for line in output.splitlines()])
    for wanted in answer:
        parts = " ".join(wanted.split()).split("…")
        pattern = re.compile(".*".join(map(re.escape, parts)))
        if wanted.strip() != "…" and not any(pattern.fullmatch(line) for line in lines):
            return False
    return True


@dataclass
class Walk:
    """Runs the commands of one page, in one shell environment.

    :ivar operation: id that `OPERATION` in a command stands for: the last one that was printed.
    """

    environment: Mapping[str, str]
    folder: Path
    operation: str = ""
    transcript: str = ""

    def run(self, command: Command) -> None:
        """
        :raises AssertionError: its answer is another one; has all that was run so far.
        """
        text = command.text.replace("OPERATION", self.operation)
        until = time.monotonic() + (_PATIENCE_S if command.looks else 0.0)
        while True:
            done = self._once(text)
            if answers(done, command.answer):
                break
            if time.monotonic() >= until:
                raise AssertionError(f"line {command.line} is answered otherwise\n{self.transcript}$ {text}\n{done}")
            time.sleep(_PAUSE_S)
        self.transcript += f"$ {text}\n{done}"
        if named := _OPERATION.findall(done):
            self.operation = named[-1]

    def _once(self, text: str) -> str:
        done = subprocess.run(
            ["bash", "-c", text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(self.environment),
            cwd=self.folder,
            timeout=300,
            check=False,
        )
        return done.stdout
