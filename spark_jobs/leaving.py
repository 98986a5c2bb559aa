"""Ends the process of a job, whatever its threads do."""

import os
import sys
from contextlib import suppress
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process at once with this exit code, after everything that was printed is written.

    Threads that wait for the answer of a Spark driver that hangs do so in Arrow's C++. If the driver is killed while
    `sys.exit` ends the interpreter, they wake up in it, and Python aborts the process ("PyGILState_Release: thread
    state must be current"). Its supervisor would see SIGABRT in place of the exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is closed, or its reader has gone
            stream.flush()
    os._exit(code)
