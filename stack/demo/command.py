"""An operator's work outside of Airflow: the `switchyard` command with its output, and a view of the state."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stack.demo.workload import ROOT
from stack.errors import StackError
from stack.harness import Stack

if TYPE_CHECKING:
    from ha_core.operations.engine.environment import Environment

COMMAND_TIMEOUT_S = 120.0
PROGRESS_S = 2.0
"""Seconds between two lines of progress toward the cuts."""
Say = Callable[[str], None]


def open_environment(stack: Stack) -> Environment:
    from ha_core.operations.engine.environment import EnvironmentSettings, connect

    security = stack.document["security_file"]
    return connect(EnvironmentSettings(stack.zookeeper, root=ROOT, security_file=Path(security)), by="cli:demo")


def switchyard(stack: Stack, words: Sequence[str], say: Say) -> Any:
    """Run the command, repeat its output, and return its result. Raises StackError."""
    say("$ switchyard " + " ".join(words))
    program = str(Path(sys.executable).with_name("switchyard"))
    where = ["--zookeeper", stack.zookeeper, "--security-file", stack.document["security_file"], "--json"]
    with subprocess.Popen(
        [program, *words, *where],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        last, said_at = "", 0.0
        for line in running.stderr:
            last = line.strip() or last
            if "have reached their cuts" not in line or time.monotonic() - said_at > PROGRESS_S:
                said_at = time.monotonic()
                say(f"  {line.rstrip()}")
        output = running.stdout.read()
        code = running.wait(COMMAND_TIMEOUT_S)
    if code != 0:
        raise StackError(f"switchyard {' '.join(words[:2])} ended with code {code}: {last}")
    return json.loads(output)
