"""Clients that stop in the middle of a request, or guess logins, neither delay others nor gain anything."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import yaml
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ha_core.operations.access.user_entries import entry
from ha_core.store.store import Store
from ha_core.wire import ApiKey
from stack.harness import Stack
from tests.gateway.authentication.signing import AUDIENCE, ISSUER, key_set, rsa_key, token
from tests.kit.own_gateway import OwnGateway
from tests.kit.running import bootstrap, create_topic, switch
from tests.kit.waiting import until
from tests.system.raw_client import ClosedError, RawClient, error_of, frame, halves, record

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long(
        *("gateway/session/streaming.py", "gateway/session/rights.py", "gateway/process/drains.py"),
        *("gateway/session/login_rate_limiter.py", "gateway/process/login_verification.py"),
    ),
]
PASSWORD = "p-secret"
TRICKLE_S = 0.4
"""Pause between two bytes."""
MOST_S = 6.0
"""Maximum time that a move may block a writer. An operation that waits for half a request in vain takes 10 s."""
BORNE = 20
"""Allowed failures of an address (`failures_per_address`)."""


def rules(*users: str) -> str:
    """Rules that allow these users all operations on all topics."""
    may = [
        {"principal": f"User:{user}", "resource_type": "topic", "name": "*", "operation": "all", "effect": "allow"}
        for user in users
    ]
    return yaml.safe_dump({"rules": may})


@pytest.fixture(scope="module")
def gateway(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnGateway]:
    """A gateway that requires logins. No client of the stack is routed to it, because none runs."""
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "keys.json").write_bytes(key_set())
    (folder / "phantoms").write_text("nobody-is-to-see-this-secret")
    (folder / "users.yaml").write_text(
        yaml.safe_dump({**entry("been", PASSWORD, 4096), **entry("new", PASSWORD, 4096)})
    )
    (folder / "rules.yaml").write_text(rules("writer", "neighbour", "late"))
    authentication = {
        "mechanisms": ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-256"],
        "oauth": {"issuer": ISSUER, "audience": [AUDIENCE], "jwks": "keys.json", "clock_skew_s": 0},
        "users_file": "users.yaml",
        "phantom_secret_file": "phantoms",
        "plain_without_tls": True,
        "failures_per_address": BORNE,
    }
    authorisation = {"rules_file": str(folder / "rules.yaml")}
    with OwnGateway(stack, folder, authentication=authentication, authorisation=authorisation) as running:
        yield running


@pytest.fixture
def topic(stack: Stack, name: str) -> str:
    create_topic(bootstrap(stack, "east"), name, 1)
    return name


class Way:
    """The route to the leader of a topic's one partition, through this gateway."""

    def __init__(self, gateway: OwnGateway, store: Store, topic: str) -> None:
        self._gateway, self._store, self.topic = gateway, store, topic

    def port(self, user: str) -> int:
        with RawClient(self._gateway.port).by_token(token(sub=user)) as client:
            found = client.call(ApiKey.METADATA, 7, topics=[{"name": self.topic}], allow_auto_topic_creation=False)[
                "topics"
            ][0]
        leader = found["partitions"][0]["leader_id"] if found["partitions"] else -1
        (own,) = [one for one in self._store.gateways() if one.id == self._gateway.name]
        return own.first_node_port + leader if leader in own.nodes else 0

    def client(self, user: str, **claims: Any) -> RawClient:
        until(lambda: self.port(user) > 0, f"the gateway leads to {self.topic}")
        return RawClient(self.port(user)).by_token(token(sub=user, **claims))


@pytest.fixture
def way(gateway: OwnGateway, store: Store, topic: str) -> Way:
    return Way(gateway, store, topic)


def written(stack: Stack, topic: str) -> int:
    """The number of the topic's records in both clusters."""
    count = 0
    for cluster in ("east", "west"):
        admin = AdminClient({"bootstrap.servers": bootstrap(stack, cluster), "log_level": 0})
        if topic in admin.list_topics(timeout=20).topics:
            partition = TopicPartition(topic, 0)
            count += admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(20).offset
    return count


def ended(gateway: OwnGateway, cause: str) -> int:
    return int(gateway.metric("connections_ended", cause=cause))


class Neighbour(threading.Thread):
    """Writes one record after the other, and records the times of their acknowledgements."""

    def __init__(self, way: Way) -> None:
        super().__init__(daemon=True)
        self._way = way
        self.taken_at: list[float] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with self._way.client("neighbour") as client:
                    while not self.stopping.is_set():
                        client.send(record(self._way.topic))
                        if error_of(client.answer(ApiKey.PRODUCE, 7)):
                            break
                        self.taken_at.append(time.monotonic())
                        time.sleep(0.02)
            except ClosedError:
                pass
            time.sleep(0.05)

    def stood_s(self) -> float:
        """The longest time between two records."""
        return max(later - before for before, later in zip(self.taken_at, self.taken_at[1:], strict=False))


class Trickle(threading.Thread):
    """Sends the rest of a request a byte at a time, until the gateway closes the connection."""

    def __init__(self, client: RawClient, rest: bytes) -> None:
        super().__init__(daemon=True)
        self._client, self._rest = client, rest
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            for at in range(len(self._rest)):
                self._client.send(self._rest[at : at + 1])
                if self.ended.wait(TRICKLE_S):
                    return
        except ClosedError:
            self.ended.set()


def test_a_request_that_comes_byte_by_byte_stops_neither_a_move_of_its_topic_nor_its_other_writers(
    stack: Stack, gateway: OwnGateway, way: Way
) -> None:
    # Given a writer whose records are acknowledged, and another one that never completes a request
    neighbour, stalled = Neighbour(way), ended(gateway, "stalled")
    neighbour.start()
    with way.client("writer") as client:
        first, rest = halves(record(way.topic, b"never whole" * 1000))
        client.send(first)
        trickle = Trickle(client, rest)
        trickle.start()
        until(lambda: len(neighbour.taken_at) > 20, "records are acknowledged")
        # When the topic moves
        moved = switch(stack, f"topic:{way.topic}", origin="east", target="west", include_other_users="")
        at = len(neighbour.taken_at)
        until(lambda: len(neighbour.taken_at) > at + 20, "records are acknowledged in the target")
        neighbour.stopping.set()
        neighbour.join(30)
        # Then the move succeeds at the first try, and the writer is held up for less than 6 s
        assert moved["result"] == "succeeded"
        assert neighbour.stood_s() < MOST_S
        # And the gateway ended the half-sent request, and no log has it
        assert trickle.ended.wait(5)
        assert ended(gateway, "stalled") == stalled + 1
    assert written(stack, way.topic) == len(neighbour.taken_at)


def test_a_half_sent_request_is_not_completed_after_its_right_was_revoked(
    stack: Stack, gateway: OwnGateway, way: Way
) -> None:
    # Given half-sent requests of a user who may write
    lost = ended(gateway, "right_lost")
    first, rest = halves(record(way.topic, b"chosen afterwards" * 500))
    clients = [way.client("writer") for _ in range(3)]
    for client in clients:
        client.send(first)
    with way.client("neighbour") as other:
        other.send(first)
        # When the right is revoked
        (gateway.file.parent / "rules.yaml").write_text(rules("neighbour", "late"))
        until(lambda: ended(gateway, "right_lost") == lost + len(clients), "their connections have ended", 20)
        # Then the gateway does not take the rest of them
        for client in clients:
            with client:
                with suppress(ClosedError):
                    client.send(rest)
                assert client.closes()
        # And it takes the rest from a user who may still write
        other.send(rest)
        assert error_of(other.answer(ApiKey.PRODUCE, 7)) == 0
    assert written(stack, way.topic) == 1
    (gateway.file.parent / "rules.yaml").write_text(rules("writer", "neighbour", "late"))


def test_a_request_whose_login_expires_half_way_writes_no_record_and_creates_no_topic(
    stack: Stack, gateway: OwnGateway, way: Way
) -> None:
    # Given half-sent requests of clients whose token expires in 4 s
    expired = ended(gateway, "session_expired")
    made = f"{way.topic}-made"
    create = frame(
        ApiKey.CREATE_TOPICS,
        4,
        topics=[{"name": made, "num_partitions": 1, "replication_factor": 1}],
        timeout_ms=5000,
        validate_only=False,
    )
    begun = [halves(record(way.topic, b"too late" * 1000)), halves(create)]
    ends_at = int(time.time()) + 4
    clients = [way.client("late", exp=ends_at) for _ in begun]
    for client, (first, _) in zip(clients, begun, strict=True):
        client.send(first)
    # When the rest arrives after the token has expired
    time.sleep(ends_at + 0.5 - time.time())
    for client, (_, rest) in zip(clients, begun, strict=True):
        client.send(rest)
    # Then the gateway closes their connections
    for client in clients:
        with client:
            assert client.closes()
    assert ended(gateway, "session_expired") == expired + 2
    assert written(stack, way.topic) == 0
    east = AdminClient({"bootstrap.servers": bootstrap(stack, "east"), "log_level": 0})
    assert made not in east.list_topics(timeout=20).topics
    # And with a valid login both requests succeed
    for (first, rest), (key, version) in zip(begun, ((ApiKey.PRODUCE, 7), (ApiKey.CREATE_TOPICS, 4)), strict=True):
        with way.client("late") as client:
            client.send(first + rest)
            client.answer(key, version)
    assert written(stack, way.topic) == 1
    assert made in east.list_topics(timeout=20).topics


def test_forged_tokens_are_braked_by_address_and_known_users_still_log_in_from_there(
    gateway: OwnGateway,
) -> None:
    # Given a user who has logged in from an address
    address, braked = "127.0.0.50", gateway.metric("logins_braked")
    RawClient(gateway.port, address).by_token(token(sub="regular")).__exit__(None, None, None)
    forged = [token(rsa_key("another"), sub=f"anybody-{number}") for number in range(50)]

    def tried(said: str) -> str:
        with RawClient(gateway.port, address) as client:
            try:
                client.by_token(said)
            except ClosedError:
                return "closed"
            except PermissionError:
                return "refused"
            return "let in"

    # When many forged tokens come from there
    with ThreadPoolExecutor(5) as pool:
        outcomes = list(pool.map(tried, forged))
        # Then the gateway stops verifying them, as it does for wrong passwords
        assert {*outcomes} == {"refused", "closed"}
        assert gateway.metric("logins_braked") - braked >= 10
        # And meanwhile the user can log in from there, and new users from other addresses
        storm = pool.map(tried, forged)
        assert [tried(token(sub="regular")) for _ in range(5)] == 5 * ["let in"]
        with RawClient(gateway.port, "127.0.0.51").by_token(token(sub="newcomer")):
            pass
        assert "let in" not in list(storm)


def test_a_braked_address_cannot_find_out_which_users_exist_or_have_logged_in_from_it(
    gateway: OwnGateway,
) -> None:
    # Given a user who has logged in from an address, and one who has not
    address, delay_s = "127.0.0.60", 0.1
    with RawClient(gateway.port, address).by_password("been", PASSWORD):
        pass
    # And so many failed logins from there that the gateway verifies no more
    braked = gateway.metric("logins_braked")

    def guessed(user: str) -> list[str]:
        since = time.monotonic()
        with RawClient(gateway.port, address) as client:
            told = client.guess(user)
        assert time.monotonic() - since >= delay_s  # whatever the reason
        return told

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(guessed, (f"nobody-{number}" for number in range(3 * BORNE))))
        # (One failure is forgiven each second. Failures of a user who is still verified count for the address as well.)
        list(pool.map(guessed, 10 * ["been"]))
    assert gateway.metric("logins_braked") - braked >= BORNE
    # When logins are tried from there
    told = {user: guessed(user) for user in ("been", "new", "nobody-at-all")}
    # Then all get the same answers
    assert told["been"] == told["new"] == told["nobody-at-all"]
    assert told["been"][-1] == "closed"
    # And the user who has logged in from there still can
    with RawClient(gateway.port, address).by_password("been", PASSWORD):
        pass
