"""Judges claims of logins beside the event loop: so many at once, and so many more that wait for it.

Who comes when too many wait already is told nothing, and tries again: a storm of logins takes the processors that judge
passwords, not those of the clients that are in.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from gateway.authenticating.accounts import KnownAccounts
from ha_core.wire.sasl_steps import KeyOf, Question, Reply, Verdict

_log = logging.getLogger(__name__)

THREADS = 2
MAX_WAITING = 512
NICE = 10
_TOO_MANY = Verdict(None, f"{MAX_WAITING} logins wait for their verdict already", unsure=True)
_FAULT = Verdict(None, "the claim could not be judged", unsure=True)


class Judged(Protocol):
    def judged(self, reply: Reply) -> None: ...


def _yield_to_the_loop() -> None:
    """Lets the event loop have a processor before this thread: on Linux threads have a priority each."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


class Judges:
    def __init__(self, loop: asyncio.AbstractEventLoop, accounts: KnownAccounts) -> None:
        self._loop, self._accounts = loop, accounts
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="judge", initializer=_yield_to_the_loop)
        self.waiting = 0

    def ask(self, connection: Judged, question: Question) -> None:
        """The connection is told later, also where nobody looks at it."""
        assert not isinstance(question, KeyOf)  # keys are known at once
        if self.waiting >= MAX_WAITING:
            self._loop.call_soon(connection.judged, _TOO_MANY)
            return
        self.waiting += 1
        work = self._loop.run_in_executor(self.pool, self._accounts.find_out, question)
        work.add_done_callback(lambda done: self._tell(connection, done))

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)

    def _tell(self, connection: Judged, done: asyncio.Future[Verdict]) -> None:
        self.waiting -= 1
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            # Without a traceback: its locals are passwords.
            _log.error("a login could not be judged: %s", type(error).__name__)
        connection.judged(_FAULT if error is not None else done.result())
