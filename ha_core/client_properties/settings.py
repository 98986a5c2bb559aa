"""Settings of a connection, taken from a Java client's properties. The files that they name are not read yet."""

from dataclasses import dataclass, field

from ha_core.wire.sasl import SecurityProfile


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A key store or trust store.

    :ivar key: prefix of the store's keys, for errors (`ssl.keystore`).
    :ivar is_pem: False: the file is PKCS12 or JKS; its bytes tell which.
    :ivar location: path of the file; empty: the properties themselves contain the store.
    :ivar certificates: PEM, if there is no file.
    :ivar private_key: PEM, if there is no file.
    :ivar password: password of the store; empty: none.
    :ivar key_password: password of the private key; empty: none, or for PKCS12 the store's.
    """

    key: str
    is_pem: bool
    location: str = ""
    certificates: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """
    :ivar trusted: store with the accepted authorities; None: the system's authorities.
    :ivar own: store with this side's certificate and key; None: it has none.
    """

    trusted: StoreSettings | None
    own: StoreSettings | None
    check_names: bool


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """
    :ivar bootstrap: `host:port[,host:port…]`
    :ivar client_id: None: not set.
    :ivar request_timeout_ms: None: not set.
    :ivar account: SASL account; its TLS part is still empty.
    :ivar tls: None: the listeners have no TLS.
    """

    bootstrap: str
    client_id: str | None
    request_timeout_ms: int | None
    account: SecurityProfile
    tls: TlsSettings | None
