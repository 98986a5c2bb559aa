"""Long-lived clients, idle ones and ones that wait for records, in a separate process.

`python -m bench.paper_clients PORT NODE_PORT IDLE WAITING`: reports when all are connected. Each number on stdin makes
that many connections request METADATA of all topics at once; each API name sends that API's largest request to the
node, on its own connection.
"""

import asyncio
import socket
import struct
import sys
from contextlib import suppress

from bench.long_requests import frame
from ha_core.wire import APIS, ApiKey, encode, encode_request

_PATIENCE_S = 5.0
_SIZE = struct.Struct(">i")
_METADATA = APIS[ApiKey.METADATA].max_version
"""The newest that gateways offer, which a real client chooses."""


def _fetch(number: int) -> bytes:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
    topics = [{"topic": f"topic-{number}", "partitions": partitions}]
    request = {"max_wait_ms": 600_000, "min_bytes": 1, "max_bytes": 1, "topics": topics}
    return encode_request(ApiKey.FETCH, 6, 1, "app", encode(ApiKey.FETCH, 6, "request", request))


async def _answer(reader: asyncio.StreamReader) -> None:
    await reader.readexactly(_SIZE.unpack(await reader.readexactly(4))[0])


async def _long(node_port: int, name: str) -> None:
    """Wait for its answer, or its closed connection; a request to a simulated broker is not answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node_port, limit=1 << 22)
    writer.write(frame(name))
    with suppress(asyncio.IncompleteReadError, ConnectionResetError, TimeoutError):
        await asyncio.wait_for(_answer(reader), _PATIENCE_S)
    writer.close()


async def _main(port: int, node_port: int, idle: int, waiting: int) -> None:
    staying: list[socket.socket] = []
    versions = encode_request(ApiKey.API_VERSIONS, 0, 1, "app", b"")
    for number in range(idle + waiting):
        if number % 64 == 0:
            await asyncio.sleep(0.005)
        sock = socket.create_connection(("127.0.0.1", node_port if number < waiting else port))
        sock.sendall(_fetch(number) if number < waiting else versions)
        staying.append(sock)
    asking = [await asyncio.open_connection("127.0.0.1", port, limit=1 << 22) for _ in range(20)]
    print("there", flush=True)
    request = {"topics": None, "allow_auto_topic_creation": False}
    body = encode(ApiKey.METADATA, _METADATA, "request", request)
    while line := await asyncio.to_thread(sys.stdin.readline):
        if not line.strip().isdecimal():
            await _long(node_port, line.strip())
            print("answered", flush=True)
            continue
        some = asking[: int(line)]
        for _, writer in some:
            writer.write(encode_request(ApiKey.METADATA, _METADATA, 1, "app", body))
        await asyncio.gather(*(_answer(reader) for reader, _ in some))
        print("answered", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(*map(int, sys.argv[1:])))
