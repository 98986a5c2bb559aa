"""Processes that a part has started take faults under their own names."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ha_core.store.security import OPEN
from stack.errors import StackError
from stack.found import FoundPart
from stack.mirror_part import MirrorPart
from stack.processes import stopped

_PARENT = """
import subprocess, sys
children = [subprocess.Popen([sys.executable, "-c", "print(1, flush=True); import time; time.sleep(99)", mark])
            for mark in ("pyspark" + ".daemon", "something.else")]
print(*(child.pid for child in children), flush=True)
children[0].wait()
children[1].wait()
"""


@pytest.fixture
def session() -> Iterator[tuple[int, int, int]]:
    """A session of three: its leader, a Python worker as Spark starts it, and another process."""
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        lines = [leader.stdout.readline().split() for _ in range(3)]
        worker, other = next(map(int, line) for line in lines if len(line) == 2)
        yield leader.pid, worker, other
        subprocess.run(["kill", "-9", str(worker), str(other)], check=False, capture_output=True)


def part_of(leader: int) -> FoundPart:
    mirror = MirrorPart(Path(), "", "", {}, {}, OPEN, None, 0)
    return FoundPart("mirror/executor", lambda: mirror.executors({"mirror": leader}), Path("log"))


def test_only_copying_processes_are_paused_resumed_and_killed(session: tuple[int, int, int]) -> None:
    leader, worker, other = session
    part = part_of(leader)
    assert (part.describe()["state"], part.describe()["pid"]) == ("ready", worker)

    asyncio.run(part.pause())
    assert part.describe()["state"] == "paused"
    assert (stopped(worker), stopped(other)) == (True, False)

    part.resume()
    assert not stopped(worker)

    asyncio.run(part.kill())
    while part.describe()["state"] != "ended":
        pass
    assert not stopped(other)


def test_a_part_that_does_not_run_is_named() -> None:
    part = FoundPart("mirror/executor", list, Path("log"))
    with pytest.raises(StackError, match="mirror/executor does not run"):
        asyncio.run(part.kill())
    with pytest.raises(StackError, match="mirror/executor is restarted by"):
        asyncio.run(part.restart())
