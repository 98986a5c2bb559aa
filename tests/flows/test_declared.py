"""Flow declarations: keys from YAML and properties, and secrets, which they must not contain."""

from typing import Any

import pytest

from ha_core.flows.declared import keys_of, keys_of_properties, require_no_secrets, text_of
from ha_core.flows.errors import FlowError

PROVIDER = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_nested_and_flat_keys_become_keys_of_properties() -> None:
    nested = {
        "clusters": ["A", "B"],
        "A": {"bootstrap": {"servers": "a:9092"}},
        "B.bootstrap.servers": "b:9092",
        "A->B": {"enabled": True, "offset.lag.max": 7},
    }
    assert keys_of(nested, "a test") == {
        "clusters": "A, B",
        "A.bootstrap.servers": "a:9092",
        "B.bootstrap.servers": "b:9092",
        "A->B.enabled": "true",
        "A->B.offset.lag.max": "7",
    }


@pytest.mark.parametrize(
    ("nested", "named"),
    [
        (["clusters"], "mapping"),
        ({"A": {"b": "1"}, "A.b": "2"}, "A.b is set twice"),
        ({"A": {"b": None}}, "A.b has no value"),
        ({"topics": ["a,b"]}, "topics"),
        ({"topics": [["a"]]}, "topics"),
        ({"spec": {"clusters": [{"alias": "A"}]}}, "an entry of spec.clusters is a list or a mapping"),
        (
            {"apiVersion": "v1", "kind": "KafkaMirrorMaker2"},
            "a resource of Kubernetes .KafkaMirrorMaker2",
        ),
        ({1: "a"}, "is not a string"),
    ],
)
def test_a_mapping_that_properties_cannot_express_is_refused(nested: Any, named: str) -> None:
    with pytest.raises(FlowError, match=named):
        keys_of(nested, "a test")


def test_the_stored_text_reads_back_as_its_keys() -> None:
    keys = {"topics": r"a\.b, c:d=e", "A->B.enabled": "true", "ключ": "значение\nnext ", "blank": ""}
    assert keys_of_properties(text_of(keys), "a test") == {**keys, "ключ": "значение\nnext"}
    assert text_of(keys).isascii()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("A.sasl.jaas.config", f'{PLAIN} username="alice" password="s3cret";'),
        ("sasl.jaas.config", f'{PLAIN} username="alice" password = s3cret;'),
        ("sasl.jaas.config", f"{PLAIN} username=\"alice\" pass='s3cret';"),
        ("sasl.jaas.config", f'{PLAIN} username="alice" password="${{env:NAME}}s3cret";'),
        ("sasl.jaas.config", f'{PLAIN} username="alice" password="${{vault:NAME}}";'),
        ("A.ssl.keystore.password", "s3cret"),
        ("A.ssl.key.password", "${vault:s3cret}"),
        ("A.consumer.ssl.truststore.password", "s3cret"),
        ("A.ssl.keystore.key", "s3cret"),
        ("ssl.keystore.certificate.chain", "-----BEGIN PRIVATE KEY-----s3cret"),
        ("basic.auth.credentials", "s3cret"),
        ("A.sasl.oauthbearer.client.credentials.client.secret", "s3cret"),
        ("A.client.id", "x?password=s3cret"),
    ],
)
def test_an_error_names_the_key_of_a_possible_secret_and_does_not_show_the_value(key: str, value: str) -> None:
    with pytest.raises(FlowError) as refused:
        require_no_secrets({**PROVIDER, key: value}, "a test")
    assert key in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("A.sasl.jaas.config", "${env:JAAS}"),
        ("A.sasl.jaas.config", f'{PLAIN} username="alice" password="${{env:WORD}}";'),
        ("A.ssl.keystore.password", "${env:WORD}"),
        ("A.ssl.keystore.location", "/etc/keys/a.p12"),
        ("A.sasl.oauthbearer.token.endpoint.url", "file:///run/token"),
        ("secret.bootstrap.servers", "a:9092"),
        ("topics", "password.*, token"),
    ],
)
def test_references_and_values_that_are_not_secret_are_accepted(key: str, value: str) -> None:
    require_no_secrets({**PROVIDER, key: value}, "a test")
