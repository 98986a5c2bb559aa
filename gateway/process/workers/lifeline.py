"""What binds a worker to its parent: it ends when the parent does, however that ends, and tells it how far it is."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1


class WorkerState(NamedTuple):
    """What a worker says of itself, as far as it is known.

    :ivar http: the port of its own page, on loopback; 0: not yet.
    :ivar serving: clients come to it.
    """

    http: int = 0
    serving: bool = False


def die_with(parent: int) -> bool:
    """Has the kernel end this process when its parent has ended; False: it has ended already.

    Killed, and not asked to end: a parent that was killed has nobody who would wait for what is in flight, and the next
    one needs the ports.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def tell(told: WorkerState) -> None:
    """To the parent, which reads the standard output."""
    sys.stdout.write(json.dumps(told._asdict()) + "\n")
    sys.stdout.flush()


def heard(line: bytes) -> WorkerState:
    """:raises ValueError: it is something else."""
    said = json.loads(line)
    try:
        return WorkerState(int(said["http"]), bool(said["serving"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{line[:80]!r} is no line of a worker") from error
