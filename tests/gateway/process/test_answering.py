"""A dead gateway is left out of answers long before its session in ZooKeeper ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.composed.handlers import NodeAddress
from gateway.process.peers import BREATH_S, HURRIES_S, Answering, Lately
from ha_core.model import GatewayRecord
from ha_core.wire import ApiKey, encode, encode_response, read_request_header

TIMEOUT_S = 0.2
PATIENT_S = 1.0
"""Enough for a gateway that answers, however busy the machine is."""
LONG_S = 30.0
OFFERED = [{"api_key": int(ApiKey.API_VERSIONS), "min_version": 0, "max_version": 3}]


@asynccontextmanager
async def listening(answers: bool = True, port: int = 0, stays: bool = False) -> AsyncIterator[int]:
    """A gateway's listener; its port.

    :param stays: it keeps the connections of those that it has answered, until it ends.
    """
    kept: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = bytearray(await reader.read(1000))
        header = read_request_header(frame, 4, len(frame))
        if answers and header is not None:
            api_key, version, correlation, *_ = header
            body = encode(api_key, version, "response", {"error_code": 0, "api_keys": OFFERED})
            writer.write(encode_response(api_key, version, correlation, body))
        kept.append(writer)
        if stays or not answers:
            await reader.read()  # until the caller hangs up
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in kept:
            writer.close()  # as the end of its process does
        await server.wait_closed()


def gateway(name: str, port: int, node_id: int = 1) -> GatewayRecord:
    return GatewayRecord(id=name, node_id=node_id, host="127.0.0.1", port=port)


async def test_a_gateway_whose_port_is_closed_is_left_out_in_the_first_round_and_back_with_its_first_answer() -> None:
    answering = Answering("own", TIMEOUT_S)
    async with listening() as port:
        peers = [gateway("own", 1), gateway("other", port)]
        assert await answering.of(peers) == tuple(peers)

    assert await answering.of(peers) == (peers[0],)

    async with listening(port=port):
        assert await answering.of(peers) == tuple(peers)


async def test_a_gateway_counts_as_dead_after_two_unanswered_probes_in_a_row() -> None:
    answering = Answering("own", TIMEOUT_S)
    async with listening() as port:
        peers = [gateway("other", port)]
        assert await answering.of(peers) == tuple(peers)
    async with listening(answers=False, port=port):
        assert await answering.of(peers) == tuple(peers)
        assert await answering.of(peers) == ()


async def test_a_silent_gateway_does_not_delay_probes_of_the_others() -> None:
    answering = Answering("own", PATIENT_S)
    async with listening() as silent, listening() as port:
        peers = [gateway(f"silent-{n}", silent) for n in range(10)] + [gateway("other", port)]
        await answering.of(peers)
    async with listening(answers=False, port=silent), listening(port=port):
        begun = asyncio.get_running_loop().time()
        await answering.of(peers)
        assert await answering.of(peers) == (peers[-1],)
        assert asyncio.get_running_loop().time() - begun < 10 * PATIENT_S


async def waited(answering: Answering) -> float:
    """How long it takes until the next look."""
    begun = asyncio.get_running_loop().time()
    await answering.pause(LONG_S)
    return asyncio.get_running_loop().time() - begun


async def test_the_end_of_a_gateway_brings_the_next_round_forward() -> None:
    answering = Answering("own", PATIENT_S)
    async with listening(stays=True) as port:
        peers = [gateway("own", 1), gateway("other", port)]
        await answering.of(peers)
        assert await answering.of(peers) == tuple(peers)
        waiting = asyncio.create_task(waited(answering))
        await asyncio.sleep(0.3)
        assert not waiting.done()

    assert await waiting < LONG_S
    assert await answering.of(peers) == (peers[0],)
    answering.close()


async def test_without_zookeeper_the_end_of_a_gateway_brings_one_attempt_forward_and_not_all() -> None:
    # Given
    answering = Answering("own", PATIENT_S)
    async with listening(stays=True) as port:
        await answering.of([gateway("other", port)])
    # When it has ended, and ZooKeeper does not list the gateways
    assert await waited(answering) < LONG_S
    # Then the next attempt has its time
    waiting = asyncio.create_task(waited(answering))
    await asyncio.sleep(3 * BREATH_S)
    assert not waiting.done()
    waiting.cancel()
    answering.close()


async def test_a_dying_gateway_that_still_listens_is_left_out_after_two_rounds_in_a_row() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    # Given
    answering = Answering("own", PATIENT_S)
    async with listening(stays=True) as port:
        peers = [gateway("other", port)]
        await answering.of(peers)
    # When
    server = await asyncio.start_server(hang_up, "127.0.0.1", port)
    await answering.pause(LONG_S)
    assert await answering.of(peers) == tuple(peers)
    # Then
    assert await waited(answering) < LONG_S
    assert await answering.of(peers) == ()
    server.close()
    answering.close()


async def test_a_gateway_that_closes_probes_is_not_probed_all_the_time() -> None:
    loop = asyncio.get_running_loop()
    answering = Answering("own", PATIENT_S)
    async with listening() as port:
        # When one that lives closes each connection as soon as it has answered
        await answering.of([gateway("other", port)])
        assert await waited(answering) >= BREATH_S
        looks, begun = 1, loop.time()
        while loop.time() < begun + 2 * HURRIES_S:
            await answering.of([gateway("other", port)])
            await answering.pause(HURRIES_S)
            looks += 1
        # Then there are no more than twice as many looks as without
        assert looks <= 2 * 3
    answering.close()


async def test_the_connection_to_an_unregistered_gateway_is_closed() -> None:
    answering = Answering("own", PATIENT_S)
    async with listening(stays=True) as port:
        await answering.of([gateway("other", port)])
        await answering.of([])
    assert await answering.of([]) == ()
    answering.close()


async def test_a_gateway_that_was_never_reached_from_here_is_shown_as_long_as_it_is_registered() -> None:
    answering = Answering("own", TIMEOUT_S)
    async with listening() as port:
        closed = port
    peers = [gateway("other", closed)]

    assert await answering.of(peers) == tuple(peers)
    assert await answering.of(peers) == tuple(peers)


def test_a_gateway_that_restarts_stays_listed_so_that_clients_know_it_when_the_next_one_restarts() -> None:
    lately = Lately(kept_s=60.0)
    gateway_record, other = gateway("gw-1", 9092), gateway("gw-2", 9093, node_id=2)
    lately.see([gateway_record, other], now=0.0)

    first, second = NodeAddress(1, "127.0.0.1", 9092), NodeAddress(2, "127.0.0.1", 9093)
    lately.see([other], now=25.0)
    assert lately.listed() == (first, second)
    lately.see([other], now=100.0)
    assert lately.listed() == (second,)
