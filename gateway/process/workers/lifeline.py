"""Binds a worker to its parent: the worker dies with the parent, and reports its state to it."""

import ctypes
import json
import os
import signal
import sys
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1


class WorkerState(NamedTuple):
    """A worker's state, as far as it has reported it.

    :ivar http: the port of its own page, on loopback; 0: not yet.
    :ivar serving: clients are accepted.
    """

    http: int = 0
    serving: bool = False


def die_with(parent: int) -> bool:
    """Makes the kernel kill this process when its parent ends; False: the parent has ended already.

    It is killed, and not terminated: after the parent's death no process would wait for requests in flight, and the
    next parent needs the ports.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def report(state: WorkerState) -> None:
    """Reports the state to the parent, which reads the standard output."""
    sys.stdout.write(json.dumps(state._asdict()) + "\n")
    sys.stdout.flush()


def parse(line: bytes) -> WorkerState:
    """:raises ValueError: the line is not a worker's report."""
    said = json.loads(line)
    try:
        return WorkerState(int(said["http"]), bool(said["serving"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{line[:80]!r} is no line of a worker") from error
