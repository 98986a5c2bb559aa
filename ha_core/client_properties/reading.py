"""Reads the settings of a connection from a Java client's properties; pure. Each fault becomes a remark, so that none
hides another. No remark shows a value that could be a secret.
"""

import re
from collections.abc import Mapping

from ha_core.client_properties.jaas import JaasError, login_module
from ha_core.client_properties.keys import (
    CONNECTION_PREFIXES,
    KEYS,
    SASL,
    SECURITY_PREFIXES,
    SINGLE_CLIENTS,
    SSL,
)
from ha_core.client_properties.logins import LoginError, account
from ha_core.client_properties.settings import ClientSettings, StoreSettings, TlsSettings
from ha_core.flows.filters import parts
from ha_core.flows.keys import KeyUse
from ha_core.flows.remarks import Remark
from ha_core.model.cluster import parse_bootstrap
from ha_core.model.numeral import whole_number
from ha_core.wire.sasl import SecurityProfile

MAX_CLIENT_ID = 255
_MAX_TIMEOUT_MS = (1 << 31) - 1
_PROTOCOLS = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
"""`security.protocol` → (TLS, SASL)"""
_STORE_TYPES = {"PEM": True, "JKS": False, "PKCS12": False}
_TLS_VERSIONS = frozenset({"TLSv1.2", "TLSv1.3"})
_SCHEME = re.compile(r"[0-9A-Za-z\-%._]*://")


class ClientReader:
    """Reads the properties of one client.

    :ivar remarks: errors, and keys without effect.
    """

    def __init__(self, properties: Mapping[str, str], cluster: str, declared_in: str) -> None:
        """
        :param cluster: the cluster's name, for remarks; empty: there is only one cluster.
        :param declared_in: the file's name, for errors of logins.
        """
        self.remarks: list[Remark] = []
        self._where = f"cluster {cluster}: " if cluster else ""
        self._declared_in = declared_in
        self._values = {key: value.strip() for key, value in properties.items()}
        for name in KEYS:
            self._agree(name)

    def read(self) -> ClientSettings | None:
        """The settings; None: there are errors among the remarks."""
        protocol = self._text("security.protocol").upper() or "PLAINTEXT"
        if protocol not in _PROTOCOLS:
            self._wrong("security.protocol", f"={protocol} is unknown; write one of {', '.join(_PROTOCOLS)}")
        over_tls, with_login = _PROTOCOLS.get(protocol, (False, False))
        self._look_at_keys(protocol, (*((SSL,) if over_tls else ()), *((SASL,) if with_login else ())))
        bootstrap, timeout_ms, client_id = self._bootstrap(), self._timeout_ms(), self._client_id()
        login = self._login() if with_login else SecurityProfile(declared_in=self._declared_in)
        tls = self._tls() if over_tls else None
        if login is None or any(remark.error for remark in self.remarks):
            return None
        return ClientSettings(bootstrap, client_id, timeout_ms, login, tls)

    def _text(self, key: str) -> str:
        return self._values.get(key, "")

    def add(self, text: str, error: bool = False) -> None:
        """Add a remark about this cluster."""
        self.remarks.append(Remark(0, f"{self._where}{text}", error))

    def _wrong(self, key: str, text: str) -> None:
        self.add(f"{key}{text}", error=True)

    def _agree(self, name: str) -> None:
        """Read the keys of single kinds of client (`consumer.ssl.…`), which win over the plain ones in MirrorMaker 2.

        If all three kinds agree and there is no plain key, their value applies: every client of MirrorMaker 2 would use
        it. Otherwise a remark names the key that has no effect.
        """
        single = {prefix: self._values[prefix + name] for prefix in SINGLE_CLIENTS if prefix + name in self._values}
        if not single or not name.startswith(SECURITY_PREFIXES):
            return
        if name not in self._values and len(single) == len(SINGLE_CLIENTS) and len(set(single.values())) == 1:
            self._values[name] = next(iter(single.values()))
        for prefix, value in single.items():
            if value != self._values.get(name):
                self.add(
                    f"{prefix}{name} has no effect and differs from {name}: all clients of a cluster connect by the "
                    "keys without a prefix"
                )

    def _look_at_keys(self, protocol: str, used: tuple[str, ...]) -> None:
        unused: list[str] = []
        for name, value in self._values.items():
            if not name.startswith(CONNECTION_PREFIXES):
                continue
            if name.startswith((SASL, SSL)) and not name.startswith(used):
                unused.append(name)
                continue
            key = KEYS.get(name)
            if key is None:
                self.add(f"{name} is not a key of Kafka's clients and has no effect; is it misspelt?")
            elif key.use is KeyUse.WITHOUT_EFFECT:
                self.add(f"{name} has no effect: {key.note}")
            elif key.use is KeyUse.REFUSED and value and value.lower() not in key.harmless:
                self._wrong(name, f"={value} cannot be used: {key.note}")
        if unused:
            self.add(f"{', '.join(sorted(unused))}: no effect with security.protocol={protocol}")

    def _bootstrap(self) -> str:
        listed = parts(self._text("bootstrap.servers"))
        if not listed:
            self._wrong("bootstrap.servers", " names no broker; set it as in: bootstrap.servers=host:9092")
            return ""
        try:
            # Java ignores a protocol in front of an address.
            addresses = parse_bootstrap(",".join(_SCHEME.sub("", one, count=1) for one in listed))
        except ValueError as error:
            self._wrong("bootstrap.servers", f": {error}")
            return ""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)

    def _timeout_ms(self) -> int | None:
        text = self._text("request.timeout.ms")
        if not text:
            return None
        value = whole_number(text, _MAX_TIMEOUT_MS)
        if not value:
            self._wrong("request.timeout.ms", f"={text} is not a number of milliseconds from 1 to {_MAX_TIMEOUT_MS}")
        return value or None

    def _client_id(self) -> str | None:
        text = self._text("client.id")
        if len(text) > MAX_CLIENT_ID or "\0" in text:
            self._wrong("client.id", f" has {len(text)} characters; give it at most {MAX_CLIENT_ID}, without NUL")
        return text or None

    def _login(self) -> SecurityProfile | None:
        try:
            module = login_module(self._text("sasl.jaas.config")) if self._text("sasl.jaas.config") else None
        except JaasError as error:
            self._wrong("sasl.jaas.config", f" {error}")
            return None
        try:
            return account(
                self._text("sasl.mechanism"),
                module,
                self._text("sasl.oauthbearer.token.endpoint.url"),
                self._declared_in,
            )
        except LoginError as error:
            self.add(str(error), error=True)
            return None

    def _tls(self) -> TlsSettings:
        names = self._values.get("ssl.endpoint.identification.algorithm", "https")
        if names.lower() not in ("", "https"):
            self._wrong(
                "ssl.endpoint.identification.algorithm", f"={names} is unknown; write https, or nothing for no check"
            )
        if not names:
            self.add("ssl.endpoint.identification.algorithm is empty: the names of brokers are not checked")
        self._versions()
        return TlsSettings(self._trusted(), self._own(), bool(names))

    def _versions(self) -> None:
        key = "ssl.enabled.protocols"
        listed = frozenset(parts(self._text(key)))
        if listed and "TLSv1.2" not in listed:
            self._wrong(
                key,
                f"={self._text(key)} cannot be used: TLS 1.2 and 1.3 are both offered here; remove it, and leave the "
                "choice to the brokers' ssl.enabled.protocols",
            )
        elif listed and listed != _TLS_VERSIONS:
            self.add(f"{key}={self._text(key)} has no effect: TLS 1.2 and 1.3 are offered, and no earlier version")

    def _trusted(self) -> StoreSettings | None:
        certificates = self._text("ssl.truststore.certificates")
        inline = {"ssl.truststore.certificates": certificates} if certificates else {}
        return self._store("ssl.truststore", inline, certificates=certificates)

    def _own(self) -> StoreSettings | None:
        chain, key = self._text("ssl.keystore.certificate.chain"), self._text("ssl.keystore.key")
        if bool(chain) != bool(key):
            given, missing = ("certificate.chain", "key") if chain else ("key", "certificate.chain")
            self._wrong(f"ssl.keystore.{given}", f" is set without ssl.keystore.{missing}; set both")
        inline = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain} if chain or key else {}
        return self._store(
            "ssl.keystore",
            inline,
            certificates=chain,
            private_key=key,
            key_password=self._text("ssl.key.password"),
        )

    def _store(self, key: str, inline: Mapping[str, str], **contents: str) -> StoreSettings | None:
        kind = self._text(f"{key}.type").upper() or "JKS"
        location, password = self._text(f"{key}.location"), self._text(f"{key}.password")
        if kind not in _STORE_TYPES:
            self._wrong(
                f"{key}.type", f"={kind} cannot be read here; convert the store by keytool -importkeystore to PKCS12"
            )
            return None
        is_pem = _STORE_TYPES[kind]
        faults = {
            f"{key}.location is empty; name a file, or remove the key": f"{key}.location" in self._values
            and not location,
            f"{' and '.join(inline)}: the value is PEM; set {key}.type=PEM": bool(inline) and not is_pem,
            f"{key}.location is set beside {', '.join(inline)}; remove one of them": bool(inline) and bool(location),
            f"{key}.password is set for PEM, which has none; remove it"
            + (", or write it as ssl.key.password" if key == "ssl.keystore" else ""): bool(password) and is_pem,
            f"{key}.password is set without a store; set {key}.location": bool(password)
            and not location
            and not inline,
        }
        wrong = [text for text, is_so in faults.items() if is_so]
        for text in wrong:
            self.add(text, error=True)
        if wrong or not (location or inline):
            return None
        return StoreSettings(key, is_pem, location, password=password, **contents)
