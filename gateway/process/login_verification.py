"""Verifies claims of logins beside the event loop: some at once, and a bounded number that wait.

Addresses take turns: an address with many claims waits for its own, and when the queue is full the newest claim of the
address with the most claims makes room. A client whose claim is dropped gets no answer and tries again. So a storm of
logins takes the cores that check passwords, not those that serve the clients already logged in.
"""

import asyncio
import logging
import os
import sys
import threading
from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

from gateway.authentication.accounts import KnownAccounts
from gateway.session.login_rate_limiter import network
from ha_core.wire.sasl_steps import Bearer, KeyOf, LoginVerdict, Plain, Question, Reply

_log = logging.getLogger(__name__)

THREADS = 2
MAX_WAITING = 512
NICE = 10
_TOO_MANY = LoginVerdict(None, f"{MAX_WAITING} logins wait for verification already", unsure=True)
_FAULT = LoginVerdict(None, "the claim could not be verified", unsure=True)


class LoginVerified(Protocol):
    def verified(self, reply: Reply) -> None: ...


class _Claim(NamedTuple):
    connection: LoginVerified
    question: Plain | Bearer


def _yield_to_the_loop() -> None:
    """Lowers this thread's priority below the event loop's: on Linux each thread has its own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


class LoginVerification:
    def __init__(self, loop: asyncio.AbstractEventLoop, accounts: KnownAccounts) -> None:
        self._loop, self._accounts = loop, accounts
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="login", initializer=_yield_to_the_loop)
        self.waiting = 0
        """Claims that are being verified, or wait for it."""
        self._verifying = 0
        self._queues: OrderedDict[str, deque[_Claim]] = OrderedDict()
        """By address; the first has its turn next."""

    def ask(self, connection: LoginVerified, question: Question, address: str = "") -> None:
        """The connection gets its verdict later, on the event loop, even if the claim is dropped."""
        assert not isinstance(question, KeyOf)  # keys are looked up without waiting
        claim, source = _Claim(connection, question), network(address)
        if self._verifying < THREADS:
            self.waiting += 1
            self._verify(claim)
            return
        if self.waiting >= MAX_WAITING and not self._makes_room(source):
            self._refuse(claim)
            return
        self.waiting += 1
        self._queues.setdefault(source, deque()).append(claim)

    def close(self) -> None:
        self._queues.clear()
        self.pool.shutdown(wait=False, cancel_futures=True)

    def _makes_room(self, source: str) -> bool:
        """Drops a claim of the address with the most, unless that is `source`; returns whether it did."""
        longest = max(self._queues, key=lambda name: len(self._queues[name]), default=source)
        if len(self._queues.get(longest, ())) <= len(self._queues.get(source, ())) + 1:
            return False
        self.waiting -= 1
        self._refuse(self._queues[longest].pop())
        return True

    def _refuse(self, claim: _Claim) -> None:
        self._loop.call_soon(claim.connection.verified, _TOO_MANY)

    def _verify(self, claim: _Claim) -> None:
        self._verifying += 1
        work = self._loop.run_in_executor(self.pool, self._accounts.find_out, claim.question)
        work.add_done_callback(partial(self._tell, claim.connection))

    def _tell(self, connection: LoginVerified, done: asyncio.Future[LoginVerdict]) -> None:
        self.waiting -= 1
        self._verifying -= 1
        if done.cancelled():
            return
        self._next()
        error = done.exception()
        if error is not None:
            # Without a traceback: its locals include passwords.
            _log.error("a login could not be verified: %s", type(error).__name__)
        connection.verified(_FAULT if error is not None else done.result())

    def _next(self) -> None:
        while self._queues:
            source, claims = self._queues.popitem(last=False)
            if claims:
                claim = claims.popleft()
                if claims:
                    self._queues[source] = claims  # after the other addresses
                self._verify(claim)
                return
