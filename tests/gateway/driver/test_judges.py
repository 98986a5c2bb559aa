"""Passwords are tried beside the event loop, and behind it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from gateway.authenticating.accounts import KnownAccounts
from gateway.authenticating.phantoms import Phantoms
from gateway.driver.judges import Judges


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have the priority of their process")
def test_the_loop_has_a_processor_before_the_threads_that_try_passwords() -> None:
    async def scenario() -> None:
        judges = Judges(asyncio.get_running_loop(), KnownAccounts(lambda _: None, Phantoms(b"s" * 16, 4096)))
        loops = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        theirs = judges.pool.submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())).result()
        assert theirs > loops
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == loops
        judges.close()

    asyncio.run(scenario())
