"""The process above the supervisor: however the supervisor ends, no process of its stack survives."""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from stack.processes import adopt_orphans, descendants, die_with_parent, end

EXIT_REMOVE = 0
EXIT_FAILED = 1
EXIT_KEEP = 3


def run_guarded(supervise: Callable[[], int], root: Path) -> int:
    """Run `supervise` in a child; after its end, kill all processes that it has left. Returns its exit code.

    EXIT_REMOVE deletes the folder: the end was orderly, and the folder is not to be kept.
    """
    adopt_orphans()
    prepare = die_with_parent(signal.SIGTERM)
    child = os.fork()
    if child == 0:
        prepare()
        code = EXIT_FAILED
        try:
            code = supervise()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: os.kill(child, signal.SIGTERM))
    code = _wait(child)
    end(lambda: descendants(os.getpid()))
    if code == EXIT_REMOVE:
        shutil.rmtree(root, ignore_errors=True)
    return code


def _wait(child: int) -> int:
    while True:
        pid, status = os.wait()  # orphans of parts end here too
        if pid == child:
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else EXIT_FAILED
