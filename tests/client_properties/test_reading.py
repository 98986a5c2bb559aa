"""Every key of a Java client's connection: applied, without effect and reported, or refused with its way out."""

import pytest

from ha_core.client_properties.keys import KEYS
from ha_core.client_properties.reading import ClientReader
from ha_core.client_properties.settings import ClientSettings, StoreSettings, TlsSettings
from ha_core.flows.keys import KeyUse
from ha_core.wire.sasl import SecurityProfile

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
URL = "sasl.oauthbearer.token.endpoint.url"
BASE = {"bootstrap.servers": "a:9092"}
LOGIN = {
    **BASE,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} required username="alice" password="s3cret";',
}
TLS = {**BASE, "security.protocol": "SSL"}
TOKEN = {
    **LOGIN,
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{BEARER} required;",
    URL: "file:///var/run/token",
}


def settings(**properties: str) -> ClientSettings:
    found, remarks = look(properties)
    assert found is not None, remarks
    return found


def look(properties: dict[str, str]) -> tuple[ClientSettings | None, list[str]]:
    reader = ClientReader(properties, "US-East.1", "mm2.properties")
    found = reader.read()
    assert all(remark.text.startswith("cluster US-East.1: ") for remark in reader.remarks)
    return found, [remark.text.removeprefix("cluster US-East.1: ") for remark in reader.remarks]


def errors(properties: dict[str, str]) -> list[str]:
    reader = ClientReader(properties, "", "mm2.properties")
    assert reader.read() is None
    assert not any("s3cret" in remark.text for remark in reader.remarks)
    return [remark.text for remark in reader.remarks if remark.error]


def test_addresses_alone_give_a_connection_without_tls_and_login() -> None:
    assert settings(**BASE) == ClientSettings("a:9092", None, None, SecurityProfile(), None)


@pytest.mark.parametrize(
    ("written", "bootstrap"),
    [
        ("a:9092, b:9093 ,", "a:9092,b:9093"),
        ("[::1]:9092", "[::1]:9092"),
        ("PLAINTEXT://a:9092,SASL_SSL://[fe80::1]:9093", "a:9092,[fe80::1]:9093"),
    ],
)
def test_addresses_are_read_as_java_reads_them(written: str, bootstrap: str) -> None:
    assert settings(**{"bootstrap.servers": written}).bootstrap == bootstrap


@pytest.mark.parametrize(
    ("protocol", "mechanism", "over_tls"),
    [
        ("PLAINTEXT", None, False),
        ("SSL", None, True),
        ("ssl", None, True),
        ("SASL_PLAINTEXT", "PLAIN", False),
        ("SASL_SSL", "PLAIN", True),
    ],
)
def test_each_security_protocol_has_its_transport_and_its_login(
    protocol: str, mechanism: str | None, over_tls: bool
) -> None:
    found = settings(**{**LOGIN, "security.protocol": protocol})
    assert (found.account.mechanism, found.tls is not None) == (mechanism, over_tls)


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_a_login_has_the_user_name_and_password_of_its_module(mechanism: str, module: str) -> None:
    jaas = f'{module} required username="alice" password="s3cret";'
    found = settings(**{**LOGIN, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas})
    assert found.account == SecurityProfile(mechanism, "alice", "s3cret")
    assert found.account.declared_in == "mm2.properties"
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize("handler", [HANDLER, HANDLER.replace("OAuthBearerL", "secured.OAuthBearerL"), ""])
@pytest.mark.parametrize("url", ["file:///var/run/token", "file:/var/run/token", "FILE://localhost/var/run/token"])
def test_the_tokens_file_is_read_from_its_url(url: str, handler: str) -> None:
    found = settings(**{**TOKEN, URL: url, "sasl.login.callback.handler.class": handler})
    assert found.account == SecurityProfile("OAUTHBEARER", token_file="/var/run/token")


def test_client_id_and_request_timeout_are_read() -> None:
    found = settings(**BASE, **{"client.id": "mm 2", "request.timeout.ms": "45000"})
    assert (found.client_id, found.request_timeout_ms) == ("mm 2", 45_000)


def test_stores_are_named_with_their_passwords() -> None:
    found = settings(
        **TLS,
        **{
            "ssl.truststore.location": "/t.jks",
            "ssl.truststore.password": "s3cret",
            "ssl.keystore.type": "pkcs12",
            "ssl.keystore.location": "/k.p12",
            "ssl.keystore.password": "s3cret2",
            "ssl.key.password": "s3cret3",
        },
    )
    assert found.tls == TlsSettings(
        StoreSettings("ssl.truststore", False, "/t.jks", password="s3cret"),
        StoreSettings("ssl.keystore", False, "/k.p12", password="s3cret2", key_password="s3cret3"),
        True,
    )
    assert "s3cret" not in repr(found)


def test_pem_stores_may_be_in_the_properties_or_in_files() -> None:
    inline = settings(
        **TLS,
        **{
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": "authority",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": "chain",
            "ssl.keystore.key": "s3cret key",
            "ssl.key.password": "s3cret",
        },
    )
    assert inline.tls == TlsSettings(
        StoreSettings("ssl.truststore", True, certificates="authority"),
        StoreSettings("ssl.keystore", True, certificates="chain", private_key="s3cret key", key_password="s3cret"),
        True,
    )
    assert "s3cret" not in repr(inline)
    files = settings(**TLS, **{"ssl.keystore.type": "PEM", "ssl.keystore.location": "/k.pem"})
    assert files.tls == TlsSettings(None, StoreSettings("ssl.keystore", True, "/k.pem"), True)


def test_an_empty_algorithm_disables_the_check_of_names_and_is_reported() -> None:
    found, remarks = look({**TLS, "ssl.endpoint.identification.algorithm": ""})
    assert found is not None
    assert found.tls == TlsSettings(None, None, False)
    assert remarks == ["ssl.endpoint.identification.algorithm is empty: the names of brokers are not checked"]
    assert settings(**TLS, **{"ssl.endpoint.identification.algorithm": "HTTPS"}).tls == TlsSettings(None, None, True)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "bootstrap.servers names no broker; set it as in: bootstrap.servers=host:9092"),
        ({"bootstrap.servers": "a"}, "bootstrap.servers: bootstrap 'a' is not host:port. Write"),
        ({**BASE, "security.protocol": "TLS"}, "security.protocol=TLS is unknown; write one of PLAINTEXT, SSL,"),
        ({**BASE, "security.providers": "a.B"}, "security.providers=a.B cannot be used: it names a Java class"),
        ({**BASE, "request.timeout.ms": "30s"}, "request.timeout.ms=30s is not a number of milliseconds from 1 to"),
        ({**BASE, "request.timeout.ms": "0"}, "request.timeout.ms=0 is not a number"),
        ({**BASE, "client.id": "a" * 256}, "client.id has 256 characters; give it at most 255"),
        (
            {**BASE, "client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
            "client.dns.lookup=resolve_canonical_bootstrap_servers_only cannot be used: remove it, and give",
        ),
        # logins
        ({**LOGIN, "sasl.mechanism": ""}, "sasl.mechanism is not set, which means GSSAPI, and that cannot be used; cr"),
        ({**LOGIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI cannot be used; create an account for one of"),
        ({**LOGIN, "sasl.mechanism": "AWS_MSK_IAM"}, "sasl.mechanism=AWS_MSK_IAM cannot be used; create an account"),
        (
            {**LOGIN, "sasl.jaas.config": ""},
            "sasl.jaas.config is not set, and a JVM's login file is not read here; set",
        ),
        ({**LOGIN, "sasl.jaas.config": f"{PLAIN} required"}, "sasl.jaas.config does not end with a semicolon"),
        ({**LOGIN, "sasl.mechanism": "SCRAM-SHA-256"}, f"sasl.jaas.config has the login module {PLAIN}; for sasl.mech"),
        (
            {**LOGIN, "sasl.jaas.config": f'{PLAIN} required password="s3cret";'},
            f'sasl.jaas.config has no username; write it as in: {PLAIN} required username="…"',
        ),
        ({**LOGIN, "sasl.jaas.config": f'{PLAIN} required username="a";'}, "sasl.jaas.config has no password; write"),
        (
            {
                **LOGIN,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{SCRAM} required username="a" password="s3cret" tokenauth="true";',
            },
            "sasl.jaas.config logs in by a delegation token (tokenauth), which is not possible here; give the user",
        ),
        ({**LOGIN, "sasl.login.class": "a.B"}, "sasl.login.class=a.B cannot be used: it names a Java class"),
        (
            {**LOGIN, "sasl.client.callback.handler.class": "a.B"},
            "sasl.client.callback.handler.class=a.B cannot be used",
        ),
        (
            {**LOGIN, "sasl.login.callback.handler.class": "a.B"},
            "sasl.login.callback.handler.class=a.B cannot be used: it names a Java class, which cannot run",
        ),
        (
            {**TOKEN, "sasl.oauthbearer.jwt.retriever.class": "a.B"},
            "sasl.oauthbearer.jwt.retriever.class=a.B cannot be",
        ),
        ({**TOKEN, URL: ""}, f"{URL} is not set, so there is no token; let a process write"),
        ({**TOKEN, URL: "https://a?s3cret"}, f"{URL} is not a file: tokens are not fetched from a service here; let a"),
        ({**TOKEN, URL: "http://[s3cret"}, f"{URL} is not a URL; let a process write"),
        ({**TOKEN, URL: "file://host/s3cret"}, f"{URL} names no file of this machine; let a process"),
        (
            {**TOKEN, "sasl.jaas.config": f'{BEARER} required extension_logicalCluster="s3cret";'},
            "sasl.jaas.config has extension_logicalCluster, but SASL extensions are not sent here; remove it",
        ),
        # TLS
        (
            {**TLS, "ssl.engine.factory.class": "a.B"},
            "ssl.engine.factory.class=a.B cannot be used: it names a Java class",
        ),
        ({**TLS, "ssl.provider": "BCJSSE"}, "ssl.provider=BCJSSE cannot be used"),
        (
            {**TLS, "ssl.cipher.suites": "TLS_A"},
            "ssl.cipher.suites=TLS_A cannot be used: OpenSSL does TLS here, and has",
        ),
        ({**TLS, "ssl.protocol": "TLSv1.1"}, "ssl.protocol=TLSv1.1 cannot be used: TLS 1.2 and 1.3 are offered here"),
        ({**TLS, "ssl.keymanager.algorithm": "Own"}, "ssl.keymanager.algorithm=Own cannot be used"),
        ({**TLS, "ssl.trustmanager.algorithm": "Own"}, "ssl.trustmanager.algorithm=Own cannot be used"),
        (
            {**TLS, "ssl.enabled.protocols": "TLSv1.3"},
            "ssl.enabled.protocols=TLSv1.3 cannot be used: TLS 1.2 and 1.3 are",
        ),
        ({**TLS, "ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols=TLSv1.1 cannot be used"),
        (
            {**TLS, "ssl.endpoint.identification.algorithm": "LDAPS"},
            "ssl.endpoint.identification.algorithm=LDAPS is unknown; write https, or nothing for no check",
        ),
        (
            {**TLS, "ssl.truststore.type": "BCFKS", "ssl.truststore.location": "/t"},
            "ssl.truststore.type=BCFKS cannot be",
        ),
        ({**TLS, "ssl.truststore.location": ""}, "ssl.truststore.location is empty; name a file, or remove the key"),
        (
            {**TLS, "ssl.truststore.certificates": "c"},
            "ssl.truststore.certificates: the value is PEM; set ssl.truststore.ty",
        ),
        (
            {**TLS, "ssl.truststore.password": "s3cret"},
            "ssl.truststore.password is set without a store; set ssl.trusts",
        ),
        (
            {**TLS, "ssl.truststore.type": "PEM", "ssl.truststore.certificates": "c", "ssl.truststore.location": "/t"},
            "ssl.truststore.location is set beside ssl.truststore.certificates; remove one of them",
        ),
        (
            {**TLS, "ssl.keystore.type": "PEM", "ssl.keystore.location": "/k", "ssl.keystore.password": "s3cret"},
            "ssl.keystore.password is set for PEM, which has none; remove it, or write it as ssl.key.password",
        ),
        (
            {**TLS, "ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "c"},
            "ssl.keystore.certificate.chain is set without ssl.keystore.key; set both",
        ),
        (
            {**TLS, "ssl.keystore.type": "PEM", "ssl.keystore.key": "s3cret"},
            "ssl.keystore.key is set without ssl.keystore.certificate.chain; set both",
        ),
        (
            {**TLS, "ssl.keystore.password": "s3cret"},
            "ssl.keystore.password is set without a store; set ssl.keystore.lo",
        ),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_with_its_way_out(properties: dict[str, str], said: str) -> None:
    (text,) = errors(properties)
    assert text.startswith(said)


def test_all_faults_are_reported_at_once() -> None:
    found = errors(
        {"security.protocol": "SASL_SSL", "ssl.provider": "a.B", "ssl.truststore.type": "a", "client.id": "\0"}
    )
    assert len(found) == 5


@pytest.mark.parametrize("name", [key.name for key in KEYS.values() if key.use is KeyUse.WITHOUT_EFFECT])
def test_a_key_without_effect_is_reported(name: str) -> None:
    found, remarks = look({**TOKEN, "security.protocol": "SASL_SSL", name: "1"})
    assert found is not None
    assert [text for text in remarks if text.startswith(f"{name} has no effect: ")]


@pytest.mark.parametrize(
    ("name", "value"), [(key.name, value) for key in KEYS.values() for value in ("", *key.harmless) if key.note]
)
def test_a_refused_key_may_have_a_value_that_changes_nothing(name: str, value: str) -> None:
    assert look({**TOKEN, "security.protocol": "SASL_SSL", name: value})[0] is not None


def test_a_misspelt_key_is_reported() -> None:
    found, remarks = look({**TLS, "ssl.trustore.location": "/t"})
    assert found is not None
    assert remarks == ["ssl.trustore.location is not a key of Kafka's clients and has no effect; is it misspelt?"]


def test_keys_that_do_not_concern_the_connection_get_no_remark() -> None:
    assert look({**BASE, "group.id": "g", "topics": ".*", "offset.storage.topic": "t", "producer.acks": "1"})[1] == []


def test_security_keys_that_the_protocol_does_not_use_are_reported_and_not_read() -> None:
    properties = {**LOGIN, "security.protocol": "PLAINTEXT", "ssl.engine.factory.class": "a.B"}
    found, remarks = look(properties)
    assert found == ClientSettings("a:9092", None, None, SecurityProfile(), None)
    assert remarks == [
        "sasl.jaas.config, sasl.mechanism, ssl.engine.factory.class: no effect with security.protocol=PLAINTEXT"
    ]


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.2,TLSv1.1"])
def test_other_tls_versions_are_reported(versions: str) -> None:
    found, (remark,) = look({**TLS, "ssl.enabled.protocols": versions})
    assert found is not None
    assert remark == (
        f"ssl.enabled.protocols={versions} has no effect: TLS 1.2 and 1.3 are offered, and no earlier version"
    )
    assert look({**TLS, "ssl.enabled.protocols": "TLSv1.3, TLSv1.2"})[1] == []


def test_a_differing_security_key_of_one_kind_of_client_is_reported_without_its_value() -> None:
    found, remarks = look(
        {
            **LOGIN,
            "consumer.sasl.jaas.config": f'{PLAIN} required username="bob" password="s3cret";',
            "admin.security.protocol": "SASL_PLAINTEXT",
            "producer.client.id": "other",
        }
    )
    assert found is not None
    assert found.account.username == "alice"
    (remark,) = remarks
    assert remark.startswith("consumer.sasl.jaas.config has no effect and differs from sasl.jaas.config: all")
    assert "s3cret" not in remark


def test_a_value_that_all_kinds_of_client_have_applies_to_the_cluster() -> None:
    of_all = {f"{kind}.{key}": value for kind in ("admin", "consumer", "producer") for key, value in LOGIN.items()}
    found, remarks = look({**BASE, **of_all})
    assert found is not None
    assert (found.account, remarks) == (SecurityProfile("PLAIN", "alice", "s3cret"), [])
    found, remarks = look({**BASE, **of_all, "consumer.security.protocol": "PLAINTEXT"})
    assert found is not None
    assert found.account == SecurityProfile()
    assert len([text for text in remarks if "security.protocol has no effect and differs from" in text]) == 3
