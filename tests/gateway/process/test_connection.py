"""Connections over real sockets: how they end, and the answers that they still owe then."""

import asyncio
from typing import Any
from unittest.mock import patch

from gateway.process.drains import Drains
from gateway.process.sockets.connection import STUCK_S, UNLEASED_READ_BYTES
from gateway.process.sockets.lingering_close import close_gracefully
from gateway.runtime import clock
from gateway.session.commands import Cause
from gateway.session.fast import fast_path
from gateway.session.lifecycle import Over
from gateway.session.session import Session
from ha_core.model import Fence
from ha_core.wire import encode, encode_request, encode_response
from tests.gateway.process.loopback import Loopback, answer, asked, frame, played, request
from tests.gateway.session.batch import batch
from tests.gateway.session.crossings import BASE, CUT, SCOPE, topic
from tests.gateway.session.messages import FETCH, fetch, fetched, state

HOLD_S = 0.5
"""Half of the time that `request` gives its brokers."""


@played
async def test_a_stop_answers_requests_in_flight_and_forwards_no_more(host: Loopback) -> None:
    # Given a request in flight
    broker = await asked(host, request(1))
    # When the gateway stops, while the client goes on sending
    stopping = asyncio.create_task(close_gracefully({host.connection}, host.lingering))
    await asyncio.sleep(0)
    host.sock.send(request(2) * 50)
    await asyncio.sleep(0.05)
    assert not host.ended
    broker.send(answer(1))
    # Then it gets its answer, and the end of the connection after it, not a reset
    assert await asyncio.to_thread(frame, host.sock) == answer(1)
    assert await asyncio.to_thread(frame, host.sock) == b""
    # And its last bytes are in no log
    assert await asyncio.to_thread(broker.recv, 100) == b""
    assert host.causes == [Cause.SHUTDOWN]
    host.sock.close()
    stopping.cancel()


@played
async def test_a_client_that_dies_in_the_middle_of_a_request_leaves_no_connection_open(host: Loopback) -> None:
    broker = await asked(host, request(1))
    host.sock.send(request(2, payload=b"y" * 400_000)[:200_000])
    await host.until(lambda: host.connection.session.intake.reading is not None)
    # When it dies with one whole request in flight, and half of another
    host.sock.close()
    # Then the broker sees the end after the half, and is awaited for the complete one only
    assert len(await asyncio.to_thread(_rest, broker)) < 200_001
    assert not host.ended
    broker.send(answer(1))
    await host.until(lambda: host.causes == [Cause.CLIENT_LEFT])


def _rest(broker: Any) -> bytes:
    data = b""
    while chunk := broker.recv(1 << 16):
        data += chunk
    return data


@played
async def test_a_client_that_takes_no_answers_does_not_hold_up_an_operation(host: Loopback) -> None:
    # Given a request in flight, after answers that the client does not read
    broker = await asked(host, request(1))
    host.connection.client.pending.append(memoryview(b"what the socket does not take"))
    host.connection.hurry()
    assert host.connection.session.context.life.connected
    # When an operation waits longer than for a moment
    with patch.object(clock, "now", return_value=clock.now() + STUCK_S):
        host.connection.hurry()
    # Then the client counts as gone, and brokers' answers are read to the end
    assert not host.connection.session.context.life.connected
    broker.send(answer(1))
    await host.until(lambda: bool(host.ended))
    assert host.causes == [Cause.CLIENT_LEFT]


@played
async def test_a_write_to_a_broker_that_is_given_up_ends_at_once_and_its_rest_is_never_sent(host: Loopback) -> None:
    # Given a broker that hangs with a request, and has not taken all of another one, of a client that takes no answers
    broker = await asked(host, request(1))
    host.sock.setblocking(False)
    large = memoryview(request(2, payload=b"y" * 8_000_000))
    upstream = next(iter(host.connection.brokers.values()))
    assert upstream.channel is not None
    sent = 0
    async with asyncio.timeout(5):
        while not upstream.channel.pending:
            try:
                sent += host.sock.send(large[sent:])
            except BlockingIOError:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
    host.connection.client.pending.append(memoryview(b"what the socket does not take"))
    # When an operation takes another cluster for dead, and then this one
    host.connection.give_up("west")
    assert not host.ended
    host.connection.give_up("east")
    # Then both connections are closed, and the broker never gets the rest
    assert host.causes == [Cause.TAKEN_FOR_DEAD]
    assert len(await asyncio.to_thread(_rest, broker)) < sent


@played
async def test_a_client_is_cut_off_at_once_and_its_requests_to_a_live_cluster_hold_the_fence(
    host: Loopback,
) -> None:
    # Given a batch in flight to the target of an open cut, and another one with which the origin hangs
    host.snapshot = state(topic(), revision=2)
    reports = list[tuple[str, ...]]()
    drains = Drains(host.loop, lambda: reports.append(drains.drained))
    host.progressed = drains.progressed  # type: ignore[method-assign]
    host.sock.send(request(1))
    host.sock.send(request(2))
    origin = await host.broker()
    await asyncio.to_thread(frame, origin)
    await asyncio.to_thread(frame, origin)
    origin.send(answer(1, CUT))
    await host.until(lambda: len(host.brokers) == 2)
    target = host.brokers[1]
    target.setblocking(True)
    await asyncio.to_thread(frame, target)
    # When a fence stands, whose operation takes the origin for dead
    host.snapshot = state(topic(fence=Fence(operation="op", taken_for_dead="east")), revision=3)
    drains.follow(3, host.snapshot.fences.scopes, [host.connection])
    host.connection.give_up("east")
    # Then the client sees the end of its connection, and the origin that of its own; the fence waits for the target
    assert await asyncio.to_thread(frame, host.sock) == b""
    assert await asyncio.to_thread(_rest, origin) == b""
    assert reports == []
    target.send(answer(1, BASE))
    await host.until(lambda: host.causes == [Cause.TAKEN_FOR_DEAD])
    drains.progressed(host.connection)
    assert reports == [("op",)]


@played
async def test_an_answer_read_after_a_process_stop_waits_until_the_lease_is_back(
    host: Loopback,
) -> None:
    # Given a request in flight when the process is stopped for longer than its lease
    broker = await asked(host, request(1))
    host.shared.lease.valid_until = clock.now()
    # When it continues, and reads the answer before anything else
    broker.send(answer(1))
    await host.until(lambda: bool(host.without_lease))
    host.sock.setblocking(False)
    assert await asyncio.to_thread(_readable, host.sock) == b""
    # Then the client gets it when ZooKeeper has confirmed that nothing has changed
    host.shared.lease.renew(clock.now() + 0.001, 10.0)
    host.without_lease[0].lease_is_back()
    host.sock.setblocking(True)
    assert await asyncio.to_thread(frame, host.sock) == answer(1)


async def stopped_behind(host: Loopback, where: Any, name: str) -> None:
    # Given a process that is stopped, for longer than its lease, between its decision on a write and the sending
    broker = await asked(host, request(1))
    decide = getattr(where, name)

    def stopped(session: Session, *arguments: Any) -> Any:
        decided = decide(session, *arguments)
        session.context.shared.lease.valid_until = clock.now()
        return decided

    # When it continues
    with patch.object(where, name, stopped):
        host.sock.send(request(2))
        await host.until(lambda: bool(host.causes))
    # Then the broker is not sent it, and the client asks again
    assert await asyncio.to_thread(_rest, broker) == b""
    assert host.causes == [Cause.LEASE_LOST]


@played
async def test_a_write_decided_under_a_lease_is_not_sent_after_the_lease_has_run_out(host: Loopback) -> None:
    await stopped_behind(host, fast_path, "requests")


@played
async def test_a_write_without_a_cached_decision_is_not_sent_after_the_lease_has_run_out(host: Loopback) -> None:
    with patch.object(fast_path, "requests", lambda *_: 0):
        await stopped_behind(host, Session, "receive")


@played
async def test_little_is_read_of_records_that_wait_for_the_lease(host: Loopback) -> None:
    # Given a reader, and a broker that has a megabyte for it when the lease is lost
    body = encode(FETCH, 12, "request", fetch(("orders", 0, 5)))
    broker = await asked(host, encode_request(FETCH, 12, 1, "app", body))
    host.shared.lease.valid_until = clock.now()
    records = batch(payload=b"y" * 1_000_000)
    given = encode_response(FETCH, 12, 1, encode(FETCH, 12, "response", fetched(("orders", 0, 6, records))))
    broker.setblocking(True)
    sending = asyncio.create_task(asyncio.to_thread(broker.sendall, given))
    await host.until(lambda: bool(host.without_lease))
    await asyncio.sleep(0.05)
    (upstream,) = host.connection.session.upstreams.values()
    assert 0 < len(upstream.carry) <= UNLEASED_READ_BYTES
    # When it is back
    host.shared.lease.renew(clock.now() + 0.001, 10.0)
    host.without_lease[0].lease_is_back()
    # Then the reader gets all of it
    host.sock.setblocking(True)
    assert await asyncio.to_thread(frame, host.sock) == given
    await sending


def _readable(sock: Any) -> bytes:
    try:
        found: bytes = sock.recv(100)
    except BlockingIOError:
        return b""
    return found


@played
async def test_bytes_unsent_when_the_lease_was_lost_are_not_sent_under_the_next_lease(
    host: Loopback,
) -> None:
    # Given a write of which the broker's socket takes a part only
    broker = await asked(host, request(1))
    host.sock.setblocking(False)
    large = memoryview(request(2, payload=b"y" * 8_000_000))
    sent = 0
    upstream = next(iter(host.connection.brokers.values()))
    assert upstream.channel is not None
    async with asyncio.timeout(5):
        while not upstream.channel.pending:
            try:
                sent += host.sock.send(large[sent:])
            except BlockingIOError:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
    # When the lease is lost and comes back before the broker takes more
    host.shared.lease.revoke()
    host.shared.lease.renew(clock.now(), 10.0)
    taken = len(await asyncio.to_thread(_rest, broker))
    # Then the rest is not sent: a broker never executes an incomplete request
    assert taken < sent
    assert host.causes == [Cause.LEASE_LOST]


@played
async def test_a_broker_connection_whose_login_ends_soon_is_closed_when_it_is_idle(
    host: Loopback,
) -> None:
    # Given a login that is good for half a second, and a request in flight at its end
    host.good_for_s = 0.5
    broker = await asked(host, request(1))
    await asyncio.sleep(0.45)
    assert host.connection.brokers
    # When it is answered
    broker.send(answer(1))
    assert await asyncio.to_thread(frame, host.sock) == answer(1)
    # Then the broker sees the end of the connection before it has a reason to end it
    assert await asyncio.to_thread(broker.recv, 100) == b""
    # And the client's next request uses another one
    host.sock.send(request(2))
    await host.until(lambda: len(host.brokers) == 2)
    host.brokers[1].setblocking(True)
    assert await asyncio.to_thread(frame, host.brokers[1]) == request(2)
    host.brokers[1].send(answer(2))
    assert await asyncio.to_thread(frame, host.sock) == answer(2)
    # And one that is idle at that time is closed at once
    assert await asyncio.to_thread(host.brokers[1].recv, 100) == b""
    assert not host.ended


@played
async def test_a_broker_connection_with_an_unanswerable_request_is_not_closed(host: Loopback) -> None:
    host.good_for_s = 0.1
    await asked(host, request(1, acks=0))
    await asyncio.sleep(0.2)
    assert host.connection.brokers


@played
async def test_a_broken_connection_does_not_end_the_one_that_replaces_it(
    host: Loopback,
) -> None:
    # Given two writes to an open cut, which the origin answers when the first has no time left to look for its target
    host.snapshot = state(topic(), revision=2)
    host.sock.send(request(1))
    origin = await host.broker()
    await asyncio.to_thread(frame, origin)
    origin.send(answer(1, CUT))
    await host.until(lambda: len(host.brokers) == 2)
    await asyncio.to_thread(_taken, host.brokers[1])
    host.brokers[1].send(answer(1, BASE))
    await asyncio.to_thread(frame, host.sock)
    host.sock.send(request(2) + request(3))
    for _ in range(2):
        await asyncio.to_thread(frame, origin)
    await asyncio.sleep(HOLD_S - 0.05)
    # When the target's connection breaks just then: the first write fails, and the end is read before that is looked at
    origin.send(answer(2, CUT + 1) + answer(3, CUT + 2))
    host.brokers[1].close()
    # Then the second one uses another connection, whose answer is awaited
    await host.until(lambda: len(host.brokers) == 3)
    await asyncio.to_thread(_taken, host.brokers[2])
    assert host.connection.session.holds_back(*SCOPE, since=3)
    host.brokers[2].send(answer(3, BASE + 1))
    for _ in range(2):
        await asyncio.to_thread(frame, host.sock)
    assert not host.connection.session.holds_back(*SCOPE, since=3)
    # And ends with the client's
    host.connection.end(Cause.SHUTDOWN)
    assert await asyncio.to_thread(host.brokers[2].recv, 100) == b""


@played
async def test_a_client_that_takes_no_answers_of_an_ended_session_does_not_hold_up_an_operation(
    host: Loopback,
) -> None:
    # Given a session that ended with a write in flight, after answers that the client does not read
    broker = await asked(host, request(1))
    host.connection.client.send(b"x" * 10_000_000)
    broker.send(answer(99))
    await host.until(lambda: isinstance(host.connection.session.context.life, Over))
    assert not host.ended
    assert host.connection.session.holds_back(*SCOPE, since=3)
    # When an operation waits longer than for a moment
    host.connection.hurry()
    with patch.object(clock, "now", return_value=clock.now() + STUCK_S):
        host.connection.hurry()
    # Then it ends at once, for brokers are not waited for
    assert host.causes == [Cause.UPSTREAM_MALFORMED]


def _taken(broker: Any) -> bytes:
    broker.setblocking(True)
    broker.settimeout(5)
    return frame(broker)
