"""The sections for listeners: the addresses of clients, virtual nodes and operators, and TLS."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from gateway.config.section import ConfigSection, Host, Port, secret_of
from gateway.runtime.tls_server import TlsServer, tls_server
from gateway.session.certificate import parse_rule
from ha_core.model.access import on_loopback
from ha_core.tls.contexts import Certificates
from ha_core.wire.tls_files import TlsFiles


class Listen(ConfigSection):
    """The bootstrap listener."""

    host: Host = "127.0.0.1"
    port: Port = 19_092
    advertised_host: Host = "127.0.0.1"
    """Name under which clients reach all listeners of this gateway."""


class ListenDiscovery(ConfigSection):
    """A listener that names real brokers, to clients that connect to these directly."""

    host: Host = "127.0.0.1"
    port: Port


class Tls(ConfigSection):
    """TLS on all listeners for clients: with this section they accept nothing else. Names of files are relative to the
    configuration's folder; files are read again when they change."""

    certificate_file: Path
    key_file: Path | None = None
    """Default: it is in `certificate_file`."""
    key_password_file: Path | None = None
    client_certificates: Literal["none", "optional", "required"] = "none"
    client_ca_file: Path | None = None
    """The authorities of clients' certificates."""
    principal_rules: tuple[str, ...] = ()
    """Map a certificate's subject to a user; without rules, certificates name no users."""
    ca_file: Path | None = None
    """The authorities of gateways' certificates, for gateways' connections to each other. Default: the system's."""
    _server: TlsServer = PrivateAttr()
    _peers: TlsFiles = PrivateAttr()

    @property
    def server(self) -> TlsServer:
        return self._server

    @property
    def peers(self) -> TlsFiles:
        """For a connection to another gateway."""
        return self._peers

    @field_validator("principal_rules")
    @classmethod
    def _rules_can_be_read(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        for rule in rules:
            parse_rule(rule)
        return rules

    @model_validator(mode="after")
    def _certificates_can_be_verified(self) -> Self:
        if (self.client_certificates == "none") != (self.client_ca_file is None):
            raise ValueError(
                f"client_certificates={self.client_certificates} and client_ca_file={self.client_ca_file} do not "
                f"belong together; give client_ca_file, and optional or required, or neither"
            )
        if self.principal_rules and self.client_certificates == "none":
            raise ValueError("principal_rules are of clients' certificates; set client_certificates and client_ca_file")
        return self

    def read_files(self, folder: Path) -> None:
        """Reads the files; TlsFilesError: one cannot be used."""
        authorities, own, key, password, gateways = (
            None if file is None else str(folder / file)
            for file in (
                self.client_ca_file,
                self.certificate_file,
                self.key_file,
                self.key_password_file,
                self.ca_file,
            )
        )
        rules = tuple(map(parse_rule, self.principal_rules))
        files = TlsFiles(authorities, own, key, password)
        self._server = tls_server(files, Certificates(self.client_certificates), rules)
        self._peers = replace(files, ca_file=gateways)


class NodePorts(ConfigSection):
    """Virtual node n listens on first_port + n."""

    first_port: Port = 20_000
    count: Annotated[int, Field(ge=2, le=60_000)] = 1000

    @model_validator(mode="after")
    def _below_the_last_port(self) -> Self:
        if self.first_port + self.count > 65_536:
            raise ValueError(
                f"first_port={self.first_port} + count={self.count} passes port 65535; lower one of the two"
            )
        return self


class Http(ConfigSection):
    """Health, metrics, and pages for operators: the connected clients, and how a client's requests are routed."""

    host: Host = "127.0.0.1"
    port: Port = 18_080
    token_file: Path | None = None
    """A secret that operators have to show; without one, the pages are served on a loopback address only."""
    _token: bytes | None = PrivateAttr(default=None)

    @property
    def token(self) -> bytes | None:
        """The content of `token_file`."""
        return self._token

    @property
    def on_loopback(self) -> bool:
        return on_loopback(self.host)

    def read_files(self, folder: Path, key: str) -> None:
        """:raises ConfigError: the token's file cannot be used."""
        if self.token_file is not None:
            self._token = secret_of(folder / self.token_file, f"{key}.token_file")
