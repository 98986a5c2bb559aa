"""A gateway's own reads from a broker."""

import asyncio
import socket

from gateway.upstream.socket_stream import AT_ONCE_BYTES, SocketStream

PIECE = 64 << 10


class Endless(socket.socket):
    """A socket with more data at every read."""

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        return bytes(min(bufsize, PIECE))


def test_other_tasks_get_their_turn_while_a_long_answer_is_read() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> int:
        with Endless() as sock:
            stream = SocketStream(sock)
            watching = asyncio.create_task(others())
            # When an answer of many such pieces is read
            count = 0
            while count < 10 * AT_ONCE_BYTES:
                count += len(await stream.read(1 << 20))
            watching.cancel()
            return turns

    # Then the loop served others in between
    assert asyncio.run(run()) >= 9
