"""Clients that have not logged in yet are read in between, so that those who are in do not wait for a crowd of them."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from itertools import pairwise

from gateway.driver.newcomers import SLICE_S, Newcomers


def test_one_turn_of_the_loop_reads_few_of_many_and_all_in_their_order() -> None:
    async def scenario() -> None:
        # Given many who have all sent something, each of whom takes a while
        loop = asyncio.get_running_loop()
        newcomers, read, turns, done = Newcomers(loop), list[int](), list[int](), asyncio.Event()

        def step(number: int) -> None:
            time.sleep(SLICE_S / 2)
            read.append(number)

        def other_work() -> None:
            turns.append(len(read))
            if len(read) < 50:
                loop.call_soon(other_work)
            else:
                done.set()

        for number in range(50):
            if newcomers.admits(partial(step, number)):
                step(number)
        loop.call_soon(other_work)
        # When the loop runs
        async with asyncio.timeout(10):
            await done.wait()
        # Then other work has had its turn after each few of them
        assert read == [*range(50)]
        assert max(after - before for before, after in pairwise(turns)) <= 3

    asyncio.run(scenario())


def test_few_are_read_as_they_come() -> None:
    async def scenario() -> None:
        newcomers = Newcomers(asyncio.get_running_loop())
        for _ in range(3):
            assert newcomers.admits(lambda: None)
            await asyncio.sleep(0.001)
        assert not newcomers.busy

    asyncio.run(scenario())
