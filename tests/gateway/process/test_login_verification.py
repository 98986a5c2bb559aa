"""Passwords are verified in threads with a lower priority than the event loop."""

import asyncio
import os
import sys
import threading

import pytest

from gateway.authentication.accounts import KnownAccounts, Phantoms
from gateway.process import login_verification as driver
from gateway.process.login_verification import LoginVerification
from ha_core.wire.sasl_steps import LoginVerdict, Plain, Reply


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have the priority of their process")
async def test_the_loop_has_a_processor_before_the_threads_that_try_passwords() -> None:
    logins = LoginVerification(asyncio.get_running_loop(), KnownAccounts(lambda _: None, Phantoms(b"s" * 16, 4096)))
    loops = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    theirs = logins.pool.submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())).result()
    assert theirs > loops
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == loops
    logins.close()


class Waiting:
    """A connection whose claim is verified."""

    def __init__(self, name: str, order: list[str]) -> None:
        self.name, self._order = name, order
        self.told: Reply | None = None
        self.done = asyncio.Event()

    def verified(self, reply: Reply) -> None:
        self.told = reply
        self._order.append(self.name)
        self.done.set()

    @property
    def unsure(self) -> bool:
        return isinstance(self.told, LoginVerdict) and self.told.unsure


class SlowAccounts(KnownAccounts):
    """Each claim takes until it is let go on."""

    def __init__(self) -> None:
        super().__init__(lambda _: None, Phantoms(b"s" * 16, 4096))
        self.go_on = threading.Event()

    def find_out(self, question: object) -> LoginVerdict:
        self.go_on.wait(10)
        return LoginVerdict("somebody")


CLAIM = Plain("", "user", "password")


async def test_a_storm_of_claims_from_one_address_keeps_no_other_address_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "THREADS", 1)
    accounts, order = SlowAccounts(), list[str]()
    logins = LoginVerification(asyncio.get_running_loop(), accounts)
    # Given many claims from one address, and then one from another
    storm = [Waiting(f"storm-{n}", order) for n in range(100)]
    for waiting in storm:
        logins.ask(waiting, CLAIM, "10.0.0.1")
    late = Waiting("late", order)
    logins.ask(late, CLAIM, "10.0.0.2")
    assert logins.waiting == 101
    # When they are judged
    accounts.go_on.set()
    await late.done.wait()
    # Then the late one had its turn after those in progress and one more
    assert order.index("late") <= 2
    for waiting in storm:
        await waiting.done.wait()
    assert sorted(order) == sorted(["late", *(one.name for one in storm)])
    logins.close()


async def test_when_the_queue_is_full_the_address_with_the_most_claims_loses_its_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "THREADS", 1)
    monkeypatch.setattr(driver, "MAX_WAITING", 10)
    accounts, order = SlowAccounts(), list[str]()
    logins = LoginVerification(asyncio.get_running_loop(), accounts)
    storm = [Waiting(f"storm-{n}", order) for n in range(15)]
    for waiting in storm:
        logins.ask(waiting, CLAIM, "10.0.0.1")
    others = [Waiting(f"other-{n}", order) for n in range(3)]
    for waiting in others:
        logins.ask(waiting, CLAIM, "10.0.0.2")
    await asyncio.sleep(0)
    # Then those above the bound, and as many of the storm as others came, have to try again
    assert [one.name for one in storm if one.unsure] == [f"storm-{n}" for n in range(7, 15)]
    assert logins.waiting == 10
    accounts.go_on.set()
    for waiting in (*storm, *others):
        await waiting.done.wait()
    assert logins.waiting == 0
    assert not any(one.unsure for one in others)
    logins.close()
