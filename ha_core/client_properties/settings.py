"""Settings of a connection, as a Java client's properties name them; no file is read yet."""

from dataclasses import dataclass, field

from ha_core.wire.sasl import SecurityProfile


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A key store or trust store.

    :ivar key: beginning of its keys, for errors (`ssl.keystore`).
    :ivar is_pem: False: PKCS12, or JKS, which the file's bytes tell.
    :ivar location: its file; empty: it is in the properties themselves.
    :ivar certificates: PEM, where there is no file.
    :ivar private_key: PEM, where there is no file.
    :ivar password: of the store; empty: none.
    :ivar key_password: of the private key; empty: the store's.
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
    :ivar trusted: certificates of accepted authorities; None: the system's.
    :ivar own: this side's certificate and key; None: it has none.
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
    :ivar account: without TLS.
    :ivar tls: None: listeners without TLS.
    """

    bootstrap: str
    client_id: str | None
    request_timeout_ms: int | None
    account: SecurityProfile
    tls: TlsSettings | None
