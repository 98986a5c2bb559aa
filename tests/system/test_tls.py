"""Everything over TLS: clients to gateways, gateways and commands to brokers and to ZooKeeper."""

import socket
import ssl
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from ha_core.kafka.security import SECURITY_FILE_VARIABLE, load_profiles
from ha_core.store.security import FILE_VARIABLE
from stack.clients.confluent_settings import client_settings
from stack.clients.kinds import CONSUMERS, PRODUCERS
from stack.clients.process import ClientProcess
from stack.harness import Stack
from stack.history.blackout import Move
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run, bootstrap, create_topics, switch, switchyard
from tests.system.conftest import MakeRun
from tests.system.watching import assert_no_client_has_failed

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600), pytest.mark.long("ha_core/tls", "stack/tls.py")]
USER = "orders-app"
CLUSTERS = ("east", "west")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    up = Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=2, security="tls")
    with up as running, pytest.MonkeyPatch.context() as environment:
        environment.setenv(SECURITY_FILE_VARIABLE, running.document["security_file"])
        environment.setenv(FILE_VARIABLE, running.document["zookeeper_security_file"])
        yield running


def tls(stack: Stack) -> dict[str, Any]:
    assert stack.tls is not None
    return stack.tls


def moved_there_and_back(stack: Stack, run: Run, producers: Sequence[ClientProcess], records: int) -> None:
    """Move the user's topics, while each producer writes at least this many records after each move."""
    for origin, target in (CLUSTERS, CLUSTERS[::-1]):
        begun = time.time()
        assert switch(stack, f"user:{USER}", origin=origin, target=target)["result"] == "succeeded"
        run.moves.append(Move(begun, time.time()))
        await_more(records, *producers)


def lost_and_doubled_nothing(run: Run, name: str, groups: Collection[str]) -> None:
    """Every record is there once, at its acknowledged offset, and no client has failed."""
    run.assert_sound(name, complete=groups)
    assert len(run.cuts([name])) == 3 * 2
    assert_no_client_has_failed(run.clients)


def test_moves_of_every_kind_of_client_lose_and_double_nothing(stack: Stack, make_run: MakeRun, name: str) -> None:
    # Given clients of every kind that log in over TLS, and one with a client certificate instead
    create_topics(stack, "east", name)
    switchyard(stack, "bindings", "set", f"user:{USER}", "east", "--reason", "test", "--yes")
    run = make_run(stack)
    account = {"user": USER, "password": stack.users[USER], "mechanism": "SCRAM-SHA-512"}
    login = {**account, "ca_file": tls(stack)["ca_file"]}
    shown = {"ca_file": tls(stack)["ca_file"], **tls(stack)["clients"][USER]}
    consumers = [run.start(kind, f"r-{kind}", name, group=f"{name}-{kind}", **login) for kind in CONSUMERS]
    producers = [run.start(kind, f"w-{kind}", name, rate=40, **login) for kind in PRODUCERS]
    producers.append(run.start("confluent-producer", "w-shown", name, rate=40, idempotence="on", **shown))
    await_records(20, *producers, *consumers)
    # When they are moved there and back
    moved_there_and_back(stack, run, producers, 20)
    run.finish(producers, consumers)
    # Then
    lost_and_doubled_nothing(run, name, [f"{name}-{kind}" for kind in CONSUMERS])


def waited_s(http: str) -> float:
    """Seconds for which a gateway has throttled its writers."""
    name = 'switchyard_gateway_throttled_seconds_total{cause="produce"}'
    lines = httpx.get(f"{http}/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_moves_of_a_throttled_user_lose_and_double_nothing(stack: Stack, make_run: MakeRun, name: str) -> None:
    # Given a user who writes and reads at twice the quota, with each mechanism of the gateways
    create_topics(stack, "east", name)
    switchyard(stack, "bindings", "set", f"user:{USER}", "east", "--reason", "test", "--yes")
    switchyard(
        *(stack, "client-quotas", "set", "--user", USER),
        *("--producer-byte-rate", "100000", "--consumer-byte-rate", "200000"),
    )
    run = make_run(stack)
    logins = [
        {"user": USER, "password": stack.users[USER], "ca_file": tls(stack)["ca_file"], "mechanism": mechanism}
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    kinds = [(*both, logins[number % 2]) for number, both in enumerate(zip(PRODUCERS, CONSUMERS, strict=True))]
    producers = [run.start(kind, f"w-{kind}", name, rate=50, size_bytes=1000, **login) for kind, _, login in kinds]
    consumers = [run.start(kind, f"r-{kind}", name, group=f"{name}-{kind}", **login) for _, kind, login in kinds]
    await_records(300, *producers)
    # When the user is moved there and back
    moved_there_and_back(stack, run, producers, 60)
    throttled_s = sum(waited_s(gateway["http"]) for gateway in stack.gateways)
    switchyard(stack, "client-quotas", "remove", "--user", USER)
    run.finish(producers, consumers)
    # Then it was throttled, and
    assert throttled_s > 10
    lost_and_doubled_nothing(run, name, [f"{name}-{kind}" for kind in CONSUMERS])


def test_brokers_know_the_account_by_scram_too(stack: Stack) -> None:
    service = stack.service
    assert service is not None
    scram = replace(
        load_profiles()["sasl"], mechanism="SCRAM-SHA-512", username=service["user"], password=service["password"]
    )
    for name in CLUSTERS:
        settings = {"bootstrap.servers": bootstrap(stack, name), **client_settings(scram)}
        assert AdminClient(settings).list_topics(timeout=30).brokers


def test_gateways_see_each_other_and_count_clients_without_tls(stack: Stack) -> None:
    # Given a client without TLS
    host, _, port = stack.gateways[0]["bootstrap"].partition(":")
    with httpx.Client() as client, pytest.raises(httpx.TransportError):
        client.get(f"http://{host}:{port}/")
    # Then it is counted, and handshakes of clients and of the other gateway are
    done = 'switchyard_gateway_tls_handshakes_total{outcome="done"} '
    deadline = time.monotonic() + 60
    while done not in (said := httpx.get(f"{stack.gateways[0]['http']}/metrics").text):
        assert time.monotonic() < deadline  # gateways ask each other every few seconds
        time.sleep(0.2)
    assert 'switchyard_gateway_foreign_connections_total{listener="tls",protocol="http"} 1.0' in said
    assert float(said.partition(done)[2].split()[0]) > 0
    assert "does not answer" not in stack.logs("gateway")


def test_keys_and_passwords_are_for_their_owner_only_and_in_no_log(stack: Stack) -> None:
    assert stack.service is not None
    secrets = [stack.service["password"], *stack.users.values()]
    for file in Path(stack.dir).rglob("*"):
        if file.is_file() and file.suffix in {".key", ".password"}:
            assert file.stat().st_mode & 0o077 == 0, file
        if file.is_file() and file.suffix == ".log":
            text = file.read_text("utf-8", "replace")
            assert not [secret for secret in secrets if secret in text], file


def test_zookeeper_is_not_reached_without_a_certificate(stack: Stack) -> None:
    host, _, port = stack.zookeeper.partition(":")
    context = ssl.create_default_context(cafile=tls(stack)["ca_file"])

    with socket.create_connection((host, int(port)), timeout=30) as sock:
        client = context.wrap_socket(sock, server_hostname=host)  # in TLS 1.3 the refusal follows the handshake
        with client, pytest.raises(ssl.SSLError):
            client.recv(1)
    assert switchyard(stack, "status")["warnings"] == []
