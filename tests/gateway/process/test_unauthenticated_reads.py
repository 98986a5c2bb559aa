"""Clients that have not logged in are read a few at a time, so that the others do not wait for a crowd of them."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from gateway.process.sockets.admission import SLICE_S, UnauthenticatedReads

MANY = 60


@contextlib.contextmanager
def ready_to_read(
    loop: asyncio.AbstractEventLoop, unauthenticated_reads: UnauthenticatedReads, read: list[int]
) -> Iterator[None]:
    """Many clients that have all sent something, and each of which takes a while."""

    def readable(number: int, ours: socket.socket) -> None:
        if unauthenticated_reads.may_be_read():
            time.sleep(SLICE_S / 2)
            ours.recv(1)
            read.append(number)

    pairs = [socket.socketpair() for _ in range(MANY)]
    for number, (ours, theirs) in enumerate(pairs):
        loop.add_reader(ours, partial(readable, number, ours))
        theirs.send(b"x")
    yield
    for ours, theirs in pairs:
        loop.remove_reader(ours)
        ours.close()
        theirs.close()


async def test_one_turn_of_the_loop_reads_few_of_many_and_all_in_their_order() -> None:
    # Given many clients that have all sent something, and other work of the loop
    loop = asyncio.get_running_loop()
    unauthenticated_reads, read, turns, done = UnauthenticatedReads(loop), list[int](), list[int](), asyncio.Event()

    def other_work() -> None:
        turns.append(len(read))
        if len(read) < MANY:
            loop.call_soon(other_work)
        else:
            done.set()

    # When it runs
    with ready_to_read(loop, unauthenticated_reads, read):
        loop.call_soon(other_work)
        async with asyncio.timeout(10):
            await done.wait()
    # Then the other work has had its turn after each few of them
    assert read == [*range(MANY)]
    assert max(after - before for before, after in pairwise(turns)) <= 3


async def test_when_waiting_clients_hang_up_there_is_room_for_others() -> None:
    # Given so many that the next ones wait in the kernel
    loop = asyncio.get_running_loop()
    unauthenticated_reads = UnauthenticatedReads(loop)
    with ready_to_read(loop, unauthenticated_reads, []):
        for _ in range(3):
            await asyncio.sleep(0)
        assert unauthenticated_reads.busy
    # When all of them hang up
    for _ in range(3):
        await asyncio.sleep(0)
    # Then others may come
    assert not unauthenticated_reads.busy
