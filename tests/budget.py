"""A run with a deadline, `pytest --start-no-file-after UNIX_S`.

Files that guard recent changes run first, no file starts after the deadline, and the summary names the files that did
not run.

A file's marker has the paths that it guards: `pytest.mark.long("gateway/session/fetch")`. Files without recent changes
in their paths follow in an order that differs from day to day, so that a deadline never leaves out the same ones.
"""

import random
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

RECENT_S = 24 * 3600
"""Commits at most this much older than HEAD are recent: about as much as is merged at once."""
NOT_RUN = "no time left to start this file"


def recently_changed(repository: Path) -> frozenset[str]:
    """Paths that recent commits changed, in git's form; none without git or its history."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=True).stdout

    try:
        newest = int(git("log", "-1", "--format=%ct"))
        return frozenset(git("log", f"--since={newest - RECENT_S}", "--name-only", "--format=").split("\n")) - {""}
    except (OSError, ValueError, subprocess.CalledProcessError):
        return frozenset()


def guards(paths: Iterable[str], changed: frozenset[str]) -> bool:
    """Whether one of these files or folders was changed, or contains a changed path."""
    return any(path == one or one.startswith(f"{path}/") for path in paths for one in changed)


class Budget:
    """Orders the files of a run, and starts none after the deadline."""

    def __init__(self, deadline_unix_s: int, repository: Path) -> None:
        self._deadline_unix_s = deadline_unix_s
        self._repository = repository
        self._started: set[Path] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        changed = recently_changed(self._repository)
        files: dict[Path, bool] = {}
        for item in items:
            mark = item.get_closest_marker("long")
            file = str(item.path.relative_to(self._repository)) if item.path.is_relative_to(self._repository) else ""
            wanted = guards((*(mark.args if mark else ()), file), changed)
            files[item.path] = files.get(item.path, False) or wanted
        # Each process of a run must draw the same order: they all know the deadline.
        order = sorted(files)
        random.Random(self._deadline_unix_s // (24 * 3600)).shuffle(order)
        place = {path: (not files[path], number) for number, path in enumerate(order)}
        items.sort(key=lambda item: place[item.path])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A file that has started is finished, however long it takes."""
        if item.path not in self._started and time.time() >= self._deadline_unix_s:
            pytest.skip(NOT_RUN)
        self._started.add(item.path)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        skipped = [one for one in terminalreporter.stats.get("skipped", []) if NOT_RUN in str(one.longrepr)]
        files = sorted({one.nodeid.partition("::")[0] for one in skipped})
        terminalreporter.section(f"{len(files)} files not run: the deadline had passed")
        for file in files:
            terminalreporter.line(file)
