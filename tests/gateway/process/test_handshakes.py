"""TLS with clients: admission, refusals, log lines, and the cost for other clients."""

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.process.sockets.handshakes import Arrived
from ha_core.tls.contexts import Certificates
from ha_core.tls.renewing import LOOK_EVERY_S
from ha_core.tls.sockets import TlsSocket
from stack.certificates import Authority
from tests.gateway.process.tls_port import TlsPort, tls_port

pytestmark = pytest.mark.usefixtures("said")


def ended(client: socket.socket) -> bool:
    """Whether the connection has ended for the client."""
    try:
        return not client.recv(1)
    except OSError:
        return True


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "gateway.process.sockets.handshakes")
    return caplog


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_over_tls_without_a_certificate_is_anonymous(tmp_path: Path, version: ssl.TLSVersion) -> None:
    with tls_port(tmp_path) as port:
        client = await port.shake(port.trusting(maximum_version=version))
        await port.until(lambda: port.came)
        assert isinstance(port.came[0].sock, TlsSocket)
        assert (port.came[0].host, port.came[0].user) == ("127.0.0.1", None)
        assert port.counts.handshakes == {"done": 1}
        assert len(port.handshakes) == 0
        client.close()


@pytest.mark.parametrize(
    ("data", "spoken", "words"),
    [
        (b"\0\0\0\x1a\0\x12\0\x03\0\0\0\x01", "kafka", "Kafka's protocol without TLS: set its security.protocol"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "http", "speaks HTTP on a Kafka port with TLS"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 5 6\r\n", "proxy", "a PROXY header came first"),
        (b"SSH-2.0-OpenSSH\r\n", "other", "neither TLS nor anything known"),
    ],
)
async def test_another_protocol_than_tls_is_named_in_one_line_counted_and_closed(
    tmp_path: Path, said: pytest.LogCaptureFixture, data: bytes, spoken: str, words: str
) -> None:
    with tls_port(tmp_path) as port:
        with port.connect() as client:
            client.sendall(data)
            await port.until(lambda: not len(port.handshakes))
            assert await asyncio.to_thread(ended, client)
        assert port.counts.foreign == {("tls", spoken): 1}
        assert len(said.messages) == 1
        assert words in said.messages[0]
        assert "address=127.0.0.1" in said.messages[0]


async def test_tls_below_1_2_is_refused(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    with tls_port(tmp_path) as port:
        old = port.trusting(maximum_version=ssl.TLSVersion.TLSv1_1, minimum_version=ssl.TLSVersion.TLSv1)
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(ssl.SSLError):
            await port.shake(old)
        await port.until(lambda: port.counts.handshakes)
        assert port.came == []
        assert "no TLS of 1.2 or above" in said.text


@pytest.mark.parametrize("case", ["authority", "name"])
async def test_a_client_that_does_not_trust_the_gateway_is_logged(
    tmp_path: Path, said: pytest.LogCaptureFixture, case: str
) -> None:
    with tls_port(tmp_path) as port:
        other = Authority(tmp_path / "other")
        trusting = ssl.create_default_context(cafile=str(other.file)) if case == "authority" else port.trusting()
        with pytest.raises(ssl.SSLCertVerificationError):
            await port.shake(trusting, "127.0.0.1" if case == "authority" else "other.example")
        await port.until(lambda: port.counts.handshakes)
        assert "does not trust this gateway's certificate" in said.text or "may not trust" in said.text


def shown(
    port: TlsPort, name: str, organisation: str = "Apps", authority: Authority | None = None, days: int = 5
) -> ssl.SSLContext:
    """A client's context with a certificate."""
    certificate = (authority or port.authority).issue(name, organisation=organisation, days=days)
    context = port.trusting()
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context


async def test_a_certificate_names_its_user(tmp_path: Path) -> None:
    with tls_port(tmp_path, certificates=Certificates.REQUIRED) as port:
        client = await port.shake(shown(port, "orders"))
        await port.until(lambda: port.came)
        assert port.came[0].user == "orders"
        client.close()


async def test_a_certificate_without_a_rule_names_no_user_and_is_logged(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    with tls_port(tmp_path, certificates=Certificates.OPTIONAL) as port:
        client = await port.shake(shown(port, "orders,O=Apps", organisation="Guests"))
        await port.until(lambda: port.came)
        assert port.came[0].user is None
        assert "no rule of tls.principal_rules has a user for" in said.text
        assert "O=Guests" in said.text
        client.close()


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("none", "showed no certificate"),
        ("foreign", "the client's certificate is not accepted"),
        ("expired", "certificate has expired"),
    ],
)
async def test_a_client_without_a_valid_certificate_is_refused(
    tmp_path: Path, said: pytest.LogCaptureFixture, case: str, words: str
) -> None:
    with tls_port(tmp_path, certificates=Certificates.REQUIRED) as port:
        contexts: dict[str, Callable[[], ssl.SSLContext]] = {
            "none": port.trusting,
            "foreign": lambda: shown(port, "orders", authority=Authority(tmp_path / "other", "Another")),
            "expired": lambda: shown(port, "orders", days=-1),
        }
        asked = asyncio.create_task(port.shake(contexts[case]()))
        await asyncio.wait({asked})
        if asked.exception() is None:  # in TLS 1.3 the client learns it when it reads
            assert await asyncio.to_thread(ended, asked.result())
        await port.until(lambda: port.counts.handshakes["failed"])
        assert port.came == []
        assert words in said.text


async def test_a_session_is_not_resumed_after_its_certificate_has_expired(
    tmp_path: Path, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_port(tmp_path, certificates=Certificates.REQUIRED) as port:
        # Given a client that has been here, and has kept its session
        context = shown(port, "orders")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        before = await port.shake(context)
        await port.until(lambda: port.came)
        # When it comes back after the end of its certificate
        monkeypatch.setattr("gateway.runtime.clock.wall", lambda: time.time() + 6 * 86_400)
        sock = port.connect()

        def again() -> None:
            with context.wrap_socket(sock, server_hostname="127.0.0.1", session=before.session) as client:
                assert client.session_reused
                client.recv(1)

        asked = asyncio.create_task(asyncio.to_thread(again))
        await port.until(lambda: port.counts.handshakes["failed"])
        await asyncio.gather(asked, return_exceptions=True)
        # Then it is refused
        assert len(port.came) == 1
        assert "the client's certificate has expired" in said.text
        before.close()


async def test_an_unfinished_handshake_ends_in_time_and_makes_room_before_that(
    tmp_path: Path, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_port(tmp_path, limit=2) as port:
        now = [100.0]
        monkeypatch.setattr("gateway.runtime.clock.now", lambda: now[0])
        # Given as many as may shake hands at once, of which one has sent half of its first message, and one nothing
        half, silent = port.connect(), port.connect()
        half.sendall(b"\x16\x03\x01\x02\0\x01")
        await asyncio.sleep(0.05)
        assert not port.handshakes.has_room()
        # When the first has had a second
        now[0] += 1.0
        # Then it has to go for others
        assert port.handshakes.has_room()
        assert len(port.handshakes) == 1
        # And the other one when its time is over
        now[0] += 30.0
        port.handshakes.sweep()
        assert len(port.handshakes) == 0
        assert port.counts.handshakes == {"late": 2}
        assert "no TLS handshake in time" in said.text
        for sock in (half, silent):
            sock.close()


async def test_a_handshake_that_comes_byte_by_byte_succeeds(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        # Given a client whose bytes come one at a time
        sock = port.connect()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = port.trusting().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        # When it shakes hands
        async with asyncio.timeout(120):
            done = False
            while not done:
                try:
                    client.do_handshake()
                    done = True
                except ssl.SSLWantReadError:
                    pass
                for byte in outgoing.read():
                    sock.send(bytes([byte]))
                    await asyncio.sleep(0)
                if not done:
                    try:
                        incoming.write(sock.recv(4096))
                    except BlockingIOError:
                        await asyncio.sleep(0.001)
            # Then it is in
            await port.until(lambda: port.came)
        sock.close()


async def test_a_client_that_hangs_up_in_a_handshake_is_counted_and_forgotten(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        port.connect().close()
        half = port.connect()
        half.sendall(b"\x16\x03\x01\x02\0\x01")
        await asyncio.sleep(0.02)
        half.close()
        await port.until(lambda: port.counts.handshakes["left"] == 2)
        assert len(port.handshakes) == 0


async def test_new_clients_get_the_new_certificate_and_never_a_broken_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with tls_port(tmp_path) as port:

        async def serial() -> str:
            client = await port.shake(port.trusting())
            found = client.getpeercert()
            client.close()
            assert found is not None
            return str(found["serialNumber"])

        # Given a client, and another certificate of the gateway, put in place while it is connected
        before = await port.shake(port.trusting())
        await port.until(lambda: port.came)
        first = await serial()
        new = port.authority.issue("gateway", ["127.0.0.1"], file="new")
        os.replace(new.certificate, port.own.certificate)
        # When its key is still the old one
        await asyncio.sleep(LOOK_EVERY_S + 0.1)
        # Then the old pair stays in force, and the log says so
        assert await serial() == first
        assert "TLS goes on with the files as they were" in caplog.text
        # When the key is there, too
        os.replace(new.key, port.own.key)
        await asyncio.sleep(LOOK_EVERY_S + 0.1)
        # Then new clients see the new one, and connected ones are served
        assert await serial() != first
        port.came[0].sock.send(b"still here")
        assert await asyncio.to_thread(before.recv, 100) == b"still here"
        before.close()


async def test_others_go_on_between_the_handshakes_of_a_storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tls_port(tmp_path) as port:
        # Given other work, which is due whenever a handshake has had its turn
        turns: list[str] = []
        step = port.handshakes._step

        def watched(one: Any) -> None:
            turns.append("handshake")
            port.loop.call_soon(turns.append, "others")
            step(one)

        monkeypatch.setattr(port.handshakes, "_step", watched)
        # When many begin at once
        context = port.trusting()
        socks = [port.connect() for _ in range(12)]
        shakes = [asyncio.to_thread(context.wrap_socket, one, server_hostname="127.0.0.1") for one in socks]
        clients = await asyncio.gather(*shakes)
        await port.until(lambda: len(port.came) == 12)
        # Then no two of them had their turn without the others between them
        assert turns.count("handshake") >= 12
        assert ["handshake"] * 2 not in [turns[at : at + 2] for at in range(len(turns))]
        for client in clients:
            client.close()


async def pair(port: TlsPort, context: ssl.SSLContext | None = None) -> tuple[Arrived, ssl.SSLSocket]:
    client = await port.shake(context or port.trusting())
    await port.until(lambda: port.came)
    return port.came[0], client


async def test_renegotiation_is_disabled(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        ours, client = await pair(port, port.trusting(maximum_version=ssl.TLSVersion.TLSv1_2))
        assert ours.sock.context.options & ssl.OP_NO_RENEGOTIATION  # type: ignore[attr-defined]
        client.close()
