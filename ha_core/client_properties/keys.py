"""All keys of a Java client's connection in Kafka 3.9 and 4.3, and their use here.

Keys that do not concern the connection itself (`group.id`, `acks`, …) are not here.
"""

from typing import NamedTuple

from ha_core.flows.keys import CLIENTS, KeyUse

SASL, SSL = "sasl.", "ssl."
SECURITY_PREFIXES = ("bootstrap.servers", "security.", SASL, SSL)
"""Prefixes of keys that decide which cluster a client reaches, and by which account."""
CONNECTION_PREFIXES = (*SECURITY_PREFIXES, "client.", "request.timeout.ms", "metadata.")
SINGLE_CLIENTS = CLIENTS
"""Prefixes with which MirrorMaker 2 sets a key for only one kind of its clients."""


class ConnectionKey(NamedTuple):
    """
    :ivar note: why the key has no effect or is refused; for a refused key also the way out.
    :ivar harmless: values of a refused key that are accepted because they change nothing, in lower case.
    """

    name: str
    use: KeyUse = KeyUse.APPLIED
    note: str = ""
    harmless: tuple[str, ...] = ()


_CODE = "it names a Java class, which cannot run here"
_OPENSSL = "OpenSSL does TLS here"
_TOKEN_FILE = "let a process write the token into a file, and set sasl.oauthbearer.token.endpoint.url=file:///PATH"
_BROKERS = "it is for brokers, or for other mechanisms"
_FRESH = "the token's file is read at each login"


def _applied(*names: str) -> tuple[ConnectionKey, ...]:
    return tuple(map(ConnectionKey, names))


def _without_effect(note: str, *names: str) -> tuple[ConnectionKey, ...]:
    return tuple(ConnectionKey(name, KeyUse.WITHOUT_EFFECT, note) for name in names)


def _refused(name: str, note: str, *harmless: str) -> ConnectionKey:
    return ConnectionKey(name, KeyUse.REFUSED, note, harmless)


KEYS = {
    key.name: key
    for key in (
        *_applied("bootstrap.servers", "client.id", "request.timeout.ms", "security.protocol"),
        _refused(
            "client.dns.lookup",
            "remove it, and give the brokers' own names in bootstrap.servers",
            "use_all_dns_ips",
            "default",
        ),
        *_without_effect("records are read from leaders, in any rack", "client.rack"),
        *_without_effect(
            "metadata is read when it is needed",
            *("metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.strategy"),
            *("metadata.recovery.rebootstrap.trigger.ms", "metadata.cluster.check.enable"),
        ),
        _refused("security.providers", f"{_CODE}; remove it: {_OPENSSL}"),
        # SASL
        *_applied("sasl.mechanism", "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url"),
        _refused(
            "sasl.client.callback.handler.class",
            f"{_CODE}; log in by PLAIN, SCRAM or OAUTHBEARER without it",
        ),
        _refused("sasl.login.class", f"{_CODE}; log in by PLAIN, SCRAM or OAUTHBEARER without it"),
        _refused(
            "sasl.login.callback.handler.class",
            f"{_CODE}; for OAUTHBEARER, {_TOKEN_FILE}; for PLAIN and SCRAM, write user and password into "
            "sasl.jaas.config",
            "org.apache.kafka.common.security.oauthbearer.oauthbearerlogincallbackhandler",
            "org.apache.kafka.common.security.oauthbearer.secured.oauthbearerlogincallbackhandler",
        ),
        _refused(
            "sasl.oauthbearer.jwt.retriever.class",
            f"{_CODE}; {_TOKEN_FILE}",
            "org.apache.kafka.common.security.oauthbearer.filejwtretriever",
            "org.apache.kafka.common.security.oauthbearer.defaultjwtretriever",
        ),
        *_without_effect(
            "brokers verify the token",
            "sasl.oauthbearer.jwt.validator.class",
            *("sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name"),
        ),
        *_without_effect(
            _BROKERS,
            *("sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience"),
            *("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.url"),
            *("sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
            *("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.header.urlencode"),
            *("sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"),
            *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor"),
        ),
        *_without_effect(
            "the token is read from a file",
            *("sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud"),
            *("sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss"),
            *("sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds"),
            *("sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file"),
            *("sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase"),
            *("sasl.oauthbearer.assertion.template.file", "sasl.oauthbearer.client.credentials.client.id"),
            *("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.scope"),
        ),
        *_without_effect(
            _FRESH,
            *("sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter"),
            *("sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds"),
            *("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"),
            *("sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms"),
        ),
        # TLS
        *_applied("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates"),
        *_applied("ssl.truststore.password", "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password"),
        *_applied("ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.key.password"),
        *_applied("ssl.endpoint.identification.algorithm", "ssl.enabled.protocols"),
        _refused(
            "ssl.protocol", f"TLS 1.2 and 1.3 are offered here; remove it: {_OPENSSL}", "tls", "tlsv1.2", "tlsv1.3"
        ),
        _refused(
            "ssl.cipher.suites",
            f"{_OPENSSL}, and has other names for cipher suites; remove it, and limit them by the brokers' "
            "ssl.cipher.suites",
        ),
        _refused("ssl.engine.factory.class", f"{_CODE}; remove it, and name key stores in PEM or PKCS12"),
        _refused("ssl.provider", f"{_CODE}; remove it: {_OPENSSL}", "sunjsse"),
        _refused("ssl.keymanager.algorithm", f"{_CODE}; remove it: {_OPENSSL}", "sunx509", "newsunx509", "pkix"),
        _refused("ssl.trustmanager.algorithm", f"{_CODE}; remove it: {_OPENSSL}", "pkix", "sunx509"),
        *_without_effect(_OPENSSL, "ssl.secure.random.implementation"),
    )
}
