"""A whole gateway handles a client's long request in a thread, and answers it in its turn."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.process.gateway import Gateway
from ha_core.plan.access.rights import Rights
from ha_core.wire import ApiKey, decode, encode, encode_request, response_body_at
from tests.gateway.process.lone_gateway import lone_gateway

MANY = 20_000


def request(api_key: int, version: int, number: int, **body: Any) -> bytes:
    return encode_request(api_key, version, number, "app", encode(api_key, version, "request", body))


def commit(number: int, topics: int, partitions: int = 1) -> bytes:
    offsets = [{"partition_index": each, "committed_offset": 7} for each in range(partitions)]
    named = [{"name": f"t{each}", "partitions": offsets} for each in range(topics)]
    member = {"group_id": "g", "generation_id_or_member_epoch": 1, "member_id": "m"}
    return request(ApiKey.OFFSET_COMMIT, 7, number, **member, topics=named)


def heartbeat(number: int) -> bytes:
    return request(ApiKey.HEARTBEAT, 3, number, group_id="g", generation_id=1, member_id="m")


async def answer(reader: asyncio.StreamReader, api_key: int, version: int) -> tuple[int, dict[str, Any]]:
    """The next one, and to which request it is."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    frame = await reader.readexactly(size)
    at = response_body_at(api_key, version, frame, 0)
    return int.from_bytes(frame[:4], "big"), decode(api_key, version, "response", frame[at:])


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[tuple[Gateway, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A gateway that allows nothing, and one client of it."""
    async with lone_gateway(folder) as gateway:
        gateway.follow_rights(Rights((), ()))
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.config.listen.port)
        yield gateway, reader, writer
        writer.close()


async def test_a_long_request_is_answered_in_its_turn(tmp_path: Path) -> None:
    async with connected(tmp_path) as (gateway, reader, writer):
        writer.write(heartbeat(1) + commit(2, MANY) + heartbeat(3) + commit(4, MANY))
        for number in (1, 2, 3, 4):
            short = number % 2 == 1
            of, found = await answer(reader, ApiKey.HEARTBEAT if short else ApiKey.OFFSET_COMMIT, 3 if short else 7)
            assert of == number
            assert short or len(found["topics"]) == MANY
        assert gateway.shared.held.bytes == 0


async def test_a_request_with_too_many_elements_ends_its_connection(tmp_path: Path) -> None:
    async with connected(tmp_path) as (gateway, reader, writer):
        writer.write(commit(1, 1_000, partitions=150))
        assert await reader.read(1) == b""
        assert gateway.clients.ended["malformed"] == 1
