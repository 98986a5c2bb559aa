"""Connections to the clusters of a flows' file, tested without a cluster."""

from contextlib import closing

import pytest

from ha_core.flows.configuration import ClusterConfig, ConfigurationError, configuration
from ha_core.flows.errors import FlowError
from ha_core.flows.properties import parse
from ha_core.kafka.brokers import DEFAULT_TIMEOUT_S
from ha_core.kafka.errors import AuthenticationRefusedError, ClusterUnreachableError
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.kafka.scripted_broker import answered, broker, header_of, listening

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="s3cret";'
VERSIONS = {ApiKey.METADATA: (1, 1), ApiKey.SASL_HANDSHAKE: (1, 1), ApiKey.SASL_AUTHENTICATE: (1, 1)}


def clusters(text: str) -> FlowClusters:
    return FlowClusters(configuration(parse(text, "mm2.properties"), "mm2.properties").clusters, "mm2.properties")


def test_an_alias_may_be_any_text_and_errors_name_it_unchanged() -> None:
    with listening(lambda _: None) as port:
        pass
    found = clusters(
        f"clusters = US-East.1, B\nUS-East.1.bootstrap.servers = 127.0.0.1:{port}\nB.bootstrap.servers=b:1"
    )
    assert found.aliases == ("US-East.1", "B")
    with found.admin("US-East.1", timeout_s=5) as admin:
        assert admin.cluster.name == "US-East.1"
        with pytest.raises(
            ClusterUnreachableError, match=rf"^Cluster US-East\.1: 127\.0\.0\.1:{port} cannot be reached"
        ):
            admin.asking().metadata()


def test_an_unknown_alias_is_an_error() -> None:
    found = clusters("clusters = A\nA.bootstrap.servers = a:1")
    with pytest.raises(KeyError):
        found.admin("B")
    with pytest.raises(KeyError):
        found.librdkafka("B")


def test_the_client_id_of_the_file_reaches_the_broker() -> None:
    named = set()

    def then(frame: bytes) -> bytes | None:
        named.add(header_of(frame).client_id)
        return answered(frame, {"brokers": [], "controller_id": -1, "topics": []})

    for line, expected in (("", "switchyard"), ("A.client.id = mm 2", "mm 2")):
        with listening(broker(VERSIONS, then)) as port:
            found = clusters(f"clusters = A\nA.bootstrap.servers = 127.0.0.1:{port}\n{line}")
            with found.admin("A", timeout_s=10) as admin:
                admin.asking().metadata()
        assert named == {expected}
        named.clear()


@pytest.mark.parametrize(
    ("line", "asked_s", "limit_s"),
    [("", None, DEFAULT_TIMEOUT_S), ("request.timeout.ms = 45000", None, 45), ("request.timeout.ms = 45000", 3, 3)],
)
def test_a_request_has_the_timeout_of_the_caller_or_else_of_the_file(
    line: str, asked_s: float | None, limit_s: float
) -> None:
    found = clusters(f"clusters = A\nA.bootstrap.servers = a:1\n{line}")
    with found.admin("A", asked_s) as admin:
        assert admin.asking().deadline.seconds == limit_s


def test_a_refused_login_names_the_file_and_no_password() -> None:
    def then(frame: bytes) -> bytes | None:
        if header_of(frame).api_key == ApiKey.SASL_HANDSHAKE:
            return answered(frame, {"mechanisms": ["PLAIN"]})
        return answered(frame, {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": "no such account"})

    with listening(broker(VERSIONS, then)) as port:
        found = clusters(
            f"clusters = A\nA.bootstrap.servers = 127.0.0.1:{port}\nA.security.protocol = SASL_PLAINTEXT\n"
            f"A.sasl.mechanism = PLAIN\nA.sasl.jaas.config = {LOGIN}\n"
        )
        with found.admin("A", timeout_s=10) as admin, pytest.raises(AuthenticationRefusedError) as error:
            admin.asking().metadata()
    assert str(error.value) == (
        f"Cluster A: 127.0.0.1:{port} refused the account alice: no such account. Correct user or password in "
        "mm2.properties, or create the account in the cluster."
    )


def test_one_error_lists_the_faults_of_all_clusters_and_remarks_name_their_cluster() -> None:
    with pytest.raises(ConfigurationError) as error:
        clusters("clusters = A, B\nssl.provider = a.B\nsecurity.protocol = SSL\nbootstrap.servers = a:1")
    assert isinstance(error.value, FlowError)
    assert [remark.text.partition(":")[0] for remark in error.value.remarks] == ["cluster A", "cluster B"]
    found = clusters("clusters = A\nA.bootstrap.servers = a:1\nA.consumer.security.protocol = SSL")
    assert [remark.text for remark in found.remarks] == [
        "cluster A: consumer.security.protocol has no effect and differs from security.protocol: all clients of a "
        "cluster connect by the keys without a prefix"
    ]


def test_no_repr_shows_a_secret() -> None:
    config = ClusterConfig(
        "A",
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": LOGIN,
        },
    )
    found = FlowClusters([config])
    with closing(found.admin("A")) as admin:
        for thing in (config, found, found.librdkafka("A"), admin, admin.security, admin.cluster):
            assert "s3cret" not in repr(thing)
    assert found.librdkafka("A")["sasl.password"] == "s3cret"
