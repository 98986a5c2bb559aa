"""Builds the Python source of a codec function, for `decoding` and `encoding`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class CodecSource:
    """Lines, the names that they use, and a run of fixed fields that one struct reads or writes."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, Any] = {}
        self._count = 0
        self._run: list[tuple[str, str]] = []

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    @contextmanager
    def block(self, head: str | None) -> Iterator[None]:
        """Lines added inside are indented under `head`; None: not indented."""
        if head is not None:
            self.add(head)
            self.depth += 1
        yield
        self.depth -= head is not None

    def var(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def fixed(self, what: str, code: str) -> None:
        """Adds a variable or an expression, and its struct code, to the run."""
        self._run.append((what, code))

    def run(self) -> tuple[str, str]:
        """Ends the run: its variables or expressions, and its codes."""
        whats, codes = ", ".join(what for what, _ in self._run), "".join(code for _, code in self._run)
        self._run.clear()
        return whats, codes

    def compiled(self, title: str, arguments: str, scope: Mapping[str, Any]) -> Any:
        """The function; `title` is its file name in tracebacks."""
        text = f"def codec({arguments}):\n" + "\n".join(self.lines) + "\n"
        everything = {**self.names, **scope}
        exec(compile(text, f"<{title}>", "exec"), everything)  # the text is built from the tables in `schemas` only
        return everything["codec"]
