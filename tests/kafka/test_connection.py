"""The raw connection against peers that are no Kafka broker."""

import socket
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.kafka.admin import Admin
from ha_core.kafka.brokers import Brokers
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import (
    AuthenticationRefusedError,
    ClusterUnreachableError,
    KafkaAdminError,
    NotKafkaError,
    UnsupportedByClusterError,
)
from ha_core.kafka.security import NO_SECURITY
from ha_core.model import Cluster
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.sasl_oauth import OAUTHBEARER
from tests.kafka.scripted_broker import answered, broker, header_of, listening


def connect(port: int, timeout_s: float = 10, security: SecurityProfile = NO_SECURITY) -> BlockingConnection:
    return BlockingConnection("east", "127.0.0.1", port, security, Deadline.after(timeout_s))


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "TLS"),
        (b"\x7f\xff\xff\xff", "frame of 2147483647 bytes"),
        (b"\x80\x00\x00\x00", "frame of -2147483648 bytes"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "correlation id 99 in place of 1"),
        (b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\x00\xff\xff\xff", "cannot be read"),
    ],
)
def test_server_that_is_no_broker_is_reported_with_its_apparent_protocol(said: bytes, named: str) -> None:
    with listening(lambda _: said) as port, pytest.raises(NotKafkaError) as caught:
        connect(port)
    assert str(caught.value).startswith(f"Cluster east: 127.0.0.1:{port} ")
    assert named in str(caught.value)


@given(st.binary(min_size=1, max_size=200))
@settings(max_examples=60, deadline=None)
def test_garbage_from_a_server_is_an_admin_error_that_names_cluster_and_address(garbage: bytes) -> None:
    replies = iter([garbage])
    with listening(lambda _: next(replies, None)) as port, pytest.raises(KafkaAdminError) as caught:
        connect(port, 0.2)
    assert str(caught.value).startswith(f"Cluster east: 127.0.0.1:{port} ")


def test_connecting_to_a_server_that_does_not_answer_fails_at_the_deadline() -> None:
    with (
        listening(lambda _: b"") as port,
        pytest.raises(ClusterUnreachableError, match=r"ApiVersions|API_VERSIONS within 0\.3 s"),
    ):
        connect(port, 0.3)


def test_a_closed_port_is_reported_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Admin(Cluster(name="east", bootstrap=f"127.0.0.1:{port}"), timeout_s=2) as admin:
        facts = admin.probe()
    assert (facts.reachable, facts.refused) == (False, False)
    assert facts.error.startswith(f"Cluster east: 127.0.0.1:{port} cannot be reached (Connection refused)")


def test_every_bootstrap_address_that_failed_is_named() -> None:
    with Admin(Cluster(name="east", bootstrap="127.0.0.1:1,127.0.0.1:2"), timeout_s=2) as admin:
        error = admin.probe().error
    assert "127.0.0.1:1,127.0.0.1:2" in error


def test_an_address_without_a_port_is_refused_with_a_way_out() -> None:
    with pytest.raises(ClusterUnreachableError, match="Correct its bootstrap addresses"):
        Admin(Cluster(name="east", bootstrap="localhost"))


def test_an_api_or_version_that_the_broker_lacks_is_named() -> None:
    with listening(broker({ApiKey.METADATA: (0, 5)})) as port, closing(connect(port)) as connection:
        with pytest.raises(UnsupportedByClusterError, match="does not offer DESCRIBE_PRODUCERS"):
            connection.version(ApiKey.DESCRIBE_PRODUCERS)
        with pytest.raises(UnsupportedByClusterError, match="METADATA 0 to 5"):
            connection.version(ApiKey.METADATA, max_version=-1)


def test_a_listener_without_plain_is_refused_with_the_mechanisms_it_offers() -> None:
    refusal = {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": ["SCRAM-SHA-512"]}
    scram_only = broker({ApiKey.SASL_HANDSHAKE: (0, 1)}, lambda frame: answered(frame, refusal))

    with listening(scram_only) as port, pytest.raises(AuthenticationRefusedError, match="it offers SCRAM-SHA-512"):
        connect(port, security=SecurityProfile("PLAIN", "svc", "secret"))


def test_an_unreadable_token_is_a_refused_login(tmp_path: Path) -> None:
    profile = SecurityProfile(OAUTHBEARER, token_file=str(tmp_path / "missing"))
    with (
        listening(broker({ApiKey.SASL_HANDSHAKE: (0, 1)})) as port,
        pytest.raises(AuthenticationRefusedError, match="missing: No such file"),
    ):
        connect(port, security=profile)


def test_an_interrupted_request_leaves_no_answer_for_the_next_one() -> None:
    # Given a broker whose answers show which request they belong to
    def topics(frame: bytes) -> bytes:
        return answered(frame, {"controller_id": header_of(frame).correlation_id})

    def interrupted(connection: BlockingConnection) -> None:
        connection.send(ApiKey.METADATA, {"topics": []})
        raise KeyboardInterrupt

    with listening(broker({ApiKey.METADATA: (0, 5)}, topics)) as port:
        brokers = Brokers(Cluster(name="east", bootstrap=f"127.0.0.1:{port}"), NO_SECURITY, 5)
        asking = brokers.asking()
        assert asking.call(None, ApiKey.METADATA, {"topics": []})["controller_id"] == 2
        # When a request is interrupted before its answer has been read
        with pytest.raises(KeyboardInterrupt):
            asking.converse(None, interrupted)
        # Then the next one is answered by its own
        # The correlation id is reused: it comes from a new connection.
        assert asking.call(None, ApiKey.METADATA, {"topics": []})["controller_id"] == 2
        brokers.close()


def test_broker_missing_in_the_latest_metadata_is_unreachable_without_a_crash() -> None:
    # Given a leader that was found a moment ago, and metadata of another thread since, in which it is missing
    with Brokers(Cluster(name="east", bootstrap="127.0.0.1:1")) as brokers:
        brokers.learn({1: ("127.0.0.1", 1)})
        # When it is asked
        with pytest.raises(ClusterUnreachableError) as caught:
            brokers.asking(1).call(3, ApiKey.METADATA, {"topics": []})
    # Then it is named, so that the next attempt finds the current leader
    assert str(caught.value).startswith("Cluster east: broker 3 is not among the brokers that the cluster names by now")


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_host_name_with_an_empty_or_long_part_is_a_cluster_that_cannot_be_reached(host: str) -> None:
    with pytest.raises(ClusterUnreachableError, match="is no host name"):
        BlockingConnection("east", host, 9092, NO_SECURITY, Deadline.after(1))
