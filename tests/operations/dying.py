"""Processes that die by SIGKILL before or after one call; another process ends their operations."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from stack.harness import Stack


class Call(NamedTuple):
    """A function or method of the project."""

    module: str
    path: str


COMMIT = Call("ha_core.operations.engine.revisions", "Touched.commit")
FINISH = Call("ha_core.operations.engine.journal", "Journal.finish")
CREATE_TOPICS = Call("ha_core.kafka.admin", "Admin.create_topics")
DELETE_EMPTY_TOPICS = Call("ha_core.kafka.admin", "Admin.delete_empty_topics")
SURPLUS = Call("ha_core.kafka.admin", "Admin.surplus")
ADOPT = Call("ha_core.operations.move.adoption", "adopt")
READ_ENDS = Call("ha_core.operations.move.fenced_reads", "FencedReads.read")
COPY_OFFSETS = Call("ha_core.operations.move.fenced_reads", "FencedReads.copy_offsets")
CUT_CHANGE = Call("ha_core.operations.move.switch_steps", "cut_change")
START = Call("ha_core.operations.move.dependents", "create_operation")
FIND_DEPENDENTS = Call("ha_core.operations.move.dependents", "find_dependents")


class Death(NamedTuple):
    """Where a process dies; with `step`, at the call one of whose arguments begins with it."""

    when: Literal["before", "after"]
    call: Call
    step: str


def before(call: Call, step: str = "") -> Death:
    return Death("before", call, step)


def after(call: Call, step: str = "") -> Death:
    return Death("after", call, step)


_TRAP = """
import importlib, os, signal, sys
module, path, when, step = sys.argv[1:5]
owner = importlib.import_module(module)
*parents, name = path.split(".")
for parent in parents:
    owner = getattr(owner, parent)
whole = getattr(owner, name)
def deadly(*args, **kwargs):
    hit = not step or any(isinstance(arg, str) and arg.startswith(step) for arg in args)
    if hit and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = whole(*args, **kwargs)
    if hit:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, name, deadly)
del sys.argv[1:5]
"""


def die(stack: Stack, death: Death, program: str, *arguments: str) -> None:
    """Run `program` with `arguments` on the stack's state until it dies there. :raises AssertionError: it did not."""
    died = subprocess.run(
        [sys.executable, "-c", _TRAP + program, *death.call, death.when, death.step, *arguments],
        env={**os.environ, "SWITCHYARD_ZOOKEEPER": stack.zookeeper},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert died.returncode == -signal.SIGKILL, (death, died.returncode, died.stderr)


_ENGINE = """
from ha_core.operations.running import engine
from ha_core.operations.engine.environment import EnvironmentSettings, connect
call, operation = sys.argv[1:3]
settings = EnvironmentSettings(os.environ["SWITCHYARD_ZOOKEEPER"], session_timeout_s=4.0)
with connect(settings, by="test:victim") as environment:
    if call == "resume at once":
        engine.resume(environment, operation, at_once=True)
    else:
        getattr(engine, call)(environment, operation)
"""


def die_in_engine(
    stack: Stack, death: Death, call: Literal["resume", "resume at once", "undo"], operation_id: str
) -> None:
    """An executor that dies while it runs, resumes or undoes the operation."""
    die(stack, death, _ENGINE, call, operation_id)
