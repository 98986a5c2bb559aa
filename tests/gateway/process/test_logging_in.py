"""Clients log in to a whole gateway over sockets, by every mechanism; and their credentials appear nowhere."""

import asyncio
import base64
import contextlib
import logging
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml

from gateway.process.gateway import Gateway
from gateway.process.login_verification import THREADS
from gateway.process.metrics import GatewayMetrics
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import AuthenticationRefusedError, KafkaAdminError
from ha_core.operations.access.user_entries import entry
from ha_core.wire import ApiKey
from ha_core.wire.sasl import MECHANISMS, SecurityProfile
from ha_core.wire.sasl_oauth import OAUTHBEARER
from stack.clients.confluent_settings import client_settings
from tests.gateway.authentication.signing import AUDIENCE, ISSUER, key_set, token
from tests.gateway.process.lone_gateway import lone_gateway

PASSWORD = "a canary that sings: wonder/4+2"
PHANTOMS = "nobody-is-to-see-this-secret"


@contextlib.asynccontextmanager
async def running(folder: Path, users: Mapping[str, Any] | None = None, **more: Any) -> AsyncIterator[Gateway]:
    (folder / "users.yaml").write_text(yaml.safe_dump(dict(users or entry("alice", PASSWORD, 4096))))
    (folder / "phantoms").write_text(PHANTOMS)
    (folder / "keys.json").write_bytes(key_set())
    authentication = {
        "mechanisms": list(MECHANISMS),
        "users_file": "users.yaml",
        "phantom_secret_file": "phantoms",
        "oauth": {"issuer": ISSUER, "audience": [AUDIENCE], "jwks": "keys.json"},
        **more,
    }
    async with lone_gateway(folder, authentication=authentication) as gateway:
        yield gateway


def profile(mechanism: str, folder: Path, password: str = PASSWORD, subject: str = "alice") -> SecurityProfile:
    if mechanism != OAUTHBEARER:
        return SecurityProfile(mechanism, "alice", password)
    (folder / "token").write_text(token(sub=subject) if password == PASSWORD else token(exp=1))
    return SecurityProfile(mechanism, token_file=str(folder / "token"))


def connect(gateway: Gateway, account: SecurityProfile) -> BlockingConnection:
    return BlockingConnection("gw", "127.0.0.1", gateway.config.listen.port, account, Deadline.after(20))


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_the_projects_own_client_logs_in_by_every_mechanism(mechanism: str, tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        account = profile(mechanism, tmp_path)
        connection = await asyncio.to_thread(connect, gateway, account)
        assert await asyncio.to_thread(connection.call, ApiKey.METADATA, {"topics": []})
        assert {open_.session.client.auth_state.user for open_ in gateway.clients.open} == {"alice"}
        connection.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_wrong_proof_is_refused_after_its_delay_while_others_are_served(mechanism: str, tmp_path: Path) -> None:
    async with running(tmp_path, failed_delay_ms=400) as gateway:
        good = await asyncio.to_thread(connect, gateway, profile(mechanism, tmp_path))
        since = time.monotonic()
        bad = asyncio.create_task(asyncio.to_thread(connect, gateway, profile(mechanism, tmp_path, "a guess")))
        assert await asyncio.to_thread(good.call, ApiKey.METADATA, {"topics": []})
        with pytest.raises(AuthenticationRefusedError) as refused:
            await bad
        assert time.monotonic() - since >= 0.4
        assert "a guess" not in str(refused.value)
        good.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_logins_that_come_at_once_are_read_in_turn_and_all_come_in(mechanism: str, tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        # Given turns of the loop in which one of them is read
        gateway.unauthenticated_reads.slice_s = 0.0
        account = profile(mechanism, tmp_path)
        # When many log in at once
        logins = [asyncio.to_thread(connect, gateway, account) for _ in range(30)]
        connections = await asyncio.gather(*logins)
        # Then all are in
        assert all(open_.session.client.auth_state.user == "alice" for open_ in gateway.clients.open)
        assert len(gateway.clients.open) == len(connections)
        for connection in connections:
            connection.close()


IN_THE_OPEN = {"old": "in the open"}
MIXED = IN_THE_OPEN | entry("alice", PASSWORD, 4096)


@pytest.mark.parametrize(("users", "verified"), [(IN_THE_OPEN, False), (MIXED, True)])
async def test_under_load_a_wrong_password_does_not_show_whether_the_user_exists(
    users: Mapping[str, Any], verified: bool, tmp_path: Path
) -> None:
    async with running(tmp_path, users, failed_delay_ms=0) as gateway:
        # Given logins that keep all threads that verify passwords busy
        halt = Event()
        for _ in range(THREADS):
            gateway.logins.pool.submit(halt.wait)
        # When a user who exists, and one who does not, come with a wrong password
        accounts = [SecurityProfile("PLAIN", user, "a guess") for user in ("old", "nobody")]
        tries = [asyncio.create_task(asyncio.to_thread(connect, gateway, account)) for account in accounts]
        await asyncio.wait(tries, timeout=0.5)
        waiting = [one for one in tries if not one.done()]
        halt.set()
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        # Then both are refused at once, or both wait for their turn
        assert len(waiting) == (len(tries) if verified else 0)
        assert [type(one) for one in outcomes] == [AuthenticationRefusedError] * len(tries)


def by_confluent(bootstrap: str, account: SecurityProfile) -> object:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **client_settings(account)})
    if account.token_file:
        admin.poll(1)  # the token is asked for here
    return admin.list_topics(timeout=20).brokers


def by_kafka_python(bootstrap: str, account: SecurityProfile) -> object:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=account.mechanism,
        sasl_plain_username=account.username,
        sasl_plain_password=account.password,
    )
    try:
        return admin.describe_cluster()["brokers"]
    finally:
        admin.close()


def by_aiokafka(bootstrap: str, account: SecurityProfile) -> object:
    from aiokafka.admin import AIOKafkaAdminClient

    async def ask() -> object:
        admin = AIOKafkaAdminClient(
            bootstrap_servers=bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=account.mechanism,
            sasl_plain_username=account.username,
            sasl_plain_password=account.password,
        )
        await admin.start()
        try:
            return (await admin.describe_cluster())["brokers"]
        finally:
            await admin.close()

    return asyncio.run(ask())


LIBRARIES = [
    (library, mechanism)
    for library in (by_confluent, by_kafka_python, by_aiokafka)
    for mechanism in MECHANISMS
    if mechanism != OAUTHBEARER or library is by_confluent
]


@pytest.mark.parametrize(("library", "mechanism"), LIBRARIES, ids=lambda one: getattr(one, "__name__", one))
async def test_unmodified_client_libraries_log_in(
    library: Callable[[str, SecurityProfile], object], mechanism: str, tmp_path: Path
) -> None:
    async with running(tmp_path) as gateway:
        bootstrap = f"127.0.0.1:{gateway.config.listen.port}"
        assert await asyncio.to_thread(library, bootstrap, profile(mechanism, tmp_path))
        assert not gateway.clients.ended["authentication_failed"]


def spellings(secret: str) -> set[str]:
    data = secret.encode()
    return {
        secret,
        urllib.parse.quote(secret),
        urllib.parse.quote_plus(secret),
        base64.b64encode(data).decode().rstrip("=")[:-1],
        base64.urlsafe_b64encode(data).decode().rstrip("=")[:-1],
        data.hex(),
    }


async def test_no_log_metric_error_or_repr_has_credentials(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Given everything that a gateway and a client say
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    async with running(tmp_path, failed_delay_ms=0) as gateway:
        for mechanism in MECHANISMS:
            # When clients log in, rightly and wrongly, and with tokens that are half
            for password in (PASSWORD, PASSWORD + "!"):
                account = profile(mechanism, tmp_path, password)
                said.append(repr(account))
                try:
                    connection = await asyncio.to_thread(connect, gateway, account)
                    said.extend(repr(one.session) + repr(one.session.client.auth_state) for one in gateway.clients.open)
                    connection.close()
                except KafkaAdminError as error:
                    said.append(str(error))
        said.append(GatewayMetrics(gateway).render().decode())
        said.append(repr(gateway.config) + repr(gateway.config.authentication.users))
    said += [record.getMessage() + str(record.exc_text) for record in caplog.records]
    # Then none of it has a password, a key, the shared secret or a token
    stored = [part.partition("=")[2] for part in (tmp_path / "users.yaml").read_text().split(",") if "_key=" in part]
    assert stored
    secrets = [PASSWORD, PHANTOMS, (tmp_path / "token").read_text(), *stored]
    text = "\n".join(said)
    assert "alice" in text
    assert '"event": "login"' in text
    assert [secret for secret in secrets for spelling in spellings(secret) if spelling in text] == []
