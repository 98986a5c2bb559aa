"""The gateway's YAML file, checked before anything starts. Passwords are in separate files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    IPvAnyNetwork,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from gateway.authentication.accounts import LoginAccount
from gateway.authentication.jwks import Jwks, JwksError, demand_allowed
from gateway.authentication.phantoms import Phantoms
from gateway.authentication.users import UsersError, accounts, with_keys
from gateway.follow.platform.section import PlatformConfigError, PlatformSection
from gateway.follow.rules_file import RulesFile, RulesFileError, parse
from gateway.follow.settings_file import SettingsError
from gateway.follow.settings_file import parse as parse_settings
from gateway.model.client_zones import NOWHERE, ClientZones
from gateway.process.sockets.tls_server import TlsServer, tls_server
from gateway.session.certificate import parse_rule
from gateway.session.discovery_rates import DiscoverySettings
from ha_core.kafka.errors import SecurityProfileError
from ha_core.kafka.security import profiles
from ha_core.model.access import on_loopback
from ha_core.platform.scram import ITERATIONS
from ha_core.store.errors import StoreSecurityError
from ha_core.store.security import OPEN, StoreSecurity
from ha_core.store.security import parse as parse_security
from ha_core.tls.contexts import Certificates, TlsFilesError, client_context
from ha_core.tls.naming import file_names
from ha_core.wire.limits import WireLimits
from ha_core.wire.sasl import PLAIN, SecurityProfile
from ha_core.wire.sasl_oauth import OAUTHBEARER
from ha_core.wire.sasl_scram import HASHES, MAX_ITERATIONS, MIN_ITERATIONS
from ha_core.wire.tls_files import TlsFiles

Port = Annotated[int, Field(ge=1, le=65_535)]
Host = Annotated[str, Field(min_length=1, max_length=255)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where libyaml is installed: a file may have ten thousand rules."""

MechanismName = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

MAX_WORKERS = 64
MAX_NETWORKS = 1000
_LAST_PORT = 65_535
_DIVIDED = ("max_connections", "max_handshakes", "max_logins")
"""Limits of all clients together."""

_MAX_FILE_BYTES = 16 * 1024 * 1024
_MIN_SECRET = 16


class ConfigError(Exception):
    """Errors of a configuration, one line each: file, key, value, remedy."""


class _ConfigSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ZooKeeper(_ConfigSection):
    hosts: Annotated[str, Field(min_length=1)]
    """`host:port[,host:port…]`."""
    root: Annotated[str, Field(pattern=r"^(/[^/]+)+$")] = "/switchyard"
    session_timeout_ms: Annotated[int, Field(ge=1000, le=120_000)] = 6000
    lease_ms: Annotated[int, Field(ge=100, le=120_000)] = 3000
    """How long after the last confirmation the gateway may still forward produce for a bound identity."""
    tls: dict[str, str] | None = None
    """`{ca_file: …, certificate_file: …, key_file: …, key_password_file: …}`, each of which may be missing."""
    username: str = ""
    """The account (digest) that owns the nodes that the gateway creates in ZooKeeper."""
    password_file: Path | None = None
    _security: StoreSecurity = PrivateAttr(default=OPEN)
    _folder: Path = PrivateAttr(default=Path())

    @property
    def security(self) -> StoreSecurity:
        """How ZooKeeper is reached, with the password from its file."""
        return self._security

    @property
    def for_helpers(self) -> dict[str, Any]:
        """The part of a helper process's order: names of files."""
        files = {} if self._security.tls is None else {"tls": file_names(self._security.tls)}
        account = {"username": self.username, "password_file": str(self._folder / str(self.password_file))}
        return files | (account if self.username else {})

    @model_validator(mode="after")
    def _lease_ends_first(self) -> Self:
        # Operations take a vanished node as proof that its gateway has stopped; only a shorter lease makes it one.
        if self.lease_ms >= self.session_timeout_ms:
            raise ValueError(
                f"lease_ms={self.lease_ms} must be below session_timeout_ms={self.session_timeout_ms}; "
                f"half of it is a good value"
            )
        return self


class Listen(_ConfigSection):
    """The bootstrap listener."""

    host: Host = "127.0.0.1"
    port: Port = 19_092
    advertised_host: Host = "127.0.0.1"
    """Name under which clients reach all listeners of this gateway."""


class ListenDiscovery(_ConfigSection):
    """A listener that names real brokers, to clients that connect to these directly."""

    host: Host = "127.0.0.1"
    port: Port


class Tls(_ConfigSection):
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

    def read(self, folder: Path) -> None:
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


class NodePorts(_ConfigSection):
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


class Http(_ConfigSection):
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


class OAuth(_ConfigSection):
    """Verification of bearer tokens."""

    issuer: Annotated[str, Field(min_length=1, max_length=2048)]
    """As tokens name it (`iss`)."""
    audience: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=100)]
    """Tokens are for one of these (`aud`)."""
    jwks: Annotated[str, Field(min_length=1, max_length=2048)]
    """The issuer's public keys: a file, or a URL that SWITCHYARD_ALLOWED_URLS allows."""
    algorithms: Annotated[list[Algorithm], Field(min_length=1)] = ["RS256", "ES256"]
    required_claims: Annotated[list[str], Field(max_length=100)] = []
    user_claim: Annotated[str, Field(min_length=1, max_length=255)] = "sub"
    clock_skew_s: Annotated[float, Field(ge=0, le=300)] = 30.0
    refresh_s: Annotated[int, Field(ge=10, le=86_400)] = 300
    """How often the keys are read again."""


class AuthenticationSection(_ConfigSection):
    """How clients log in."""

    anonymous: bool = False
    """Whether clients may skip authentication; their user is then `anonymous`."""
    mechanisms: Annotated[list[MechanismName], Field(min_length=1)] = ["PLAIN"]
    users_file: Path | None = None
    """YAML `{user: password}` or `{user: {mechanism: key}}`; relative to the configuration file."""
    phantom_secret_file: Path | None = None
    """A secret that all gateways share; the SCRAM keys of users that do not exist derive from it."""
    scram_iterations: Annotated[int, Field(ge=MIN_ITERATIONS, le=MAX_ITERATIONS)] | None = None
    """Iterations of those keys: as many as the users' keys have. Default: the platform's, where its users are followed,
    else the least that Kafka accepts."""
    oauth: OAuth | None = None
    session_ms: Annotated[int, Field(ge=0, le=31_536_000_000)] = 0
    """Longest time that a login is valid; 0: no limit, except that of a token."""
    failed_delay_ms: Annotated[int, Field(ge=0, le=10_000)] = 100
    """Delay before a failed login is answered and its connection closed."""
    failures_per_address: Annotated[int, Field(ge=1, le=100_000)] = 20
    """Failures of one address that are tolerated, plus one each second; after that its logins are refused unchecked."""
    plain_without_tls: bool = False
    """Whether passwords may be sent in plain text, over a listener that only this machine reaches."""
    _users: Mapping[str, LoginAccount] = PrivateAttr(default_factory=dict)
    _phantom_secret: bytes | None = PrivateAttr(default=None)
    _iterations: int = PrivateAttr(default=MIN_ITERATIONS)
    _jwks: str | Path = PrivateAttr(default="")

    @property
    def users(self) -> Mapping[str, LoginAccount]:
        """User → account, from `users_file`."""
        return self._users

    @property
    def iterations(self) -> int:
        """`scram_iterations`, or their default."""
        return self.scram_iterations or self._iterations

    @property
    def phantom_secret(self) -> bytes | None:
        """The content of `phantom_secret_file`."""
        return self._phantom_secret

    @property
    def jwks(self) -> str | Path:
        """A URL, or a file's full path."""
        return self._jwks

    @model_validator(mode="after")
    def _mechanisms_have_what_they_need(self) -> Self:
        if (OAUTHBEARER in self.mechanisms) != (self.oauth is not None):
            raise ValueError(f"{OAUTHBEARER} among mechanisms needs the section oauth, and it that: give both, or none")
        if self.users_file is not None and self.mechanisms == [OAUTHBEARER]:
            raise ValueError(f"users_file is of no use where {OAUTHBEARER} is the only mechanism; leave one out")
        if any(name in HASHES for name in self.mechanisms) and self.phantom_secret_file is None:
            raise ValueError(
                "SCRAM needs phantom_secret_file: a file with 16 random characters or more, the same at all gateways, "
                "or clients learn which users exist. Make it with `openssl rand -base64 32`"
            )
        return self


class Authorisation(_ConfigSection):
    """Whether access rules apply, or every logged-in user may do everything."""

    rules_file: Path | None = None
    """YAML (`rules_file`); relative to the configuration file. None: off."""
    _rules: RulesFile | None = PrivateAttr(default=None)

    @property
    def rules(self) -> RulesFile | None:
        """The rules at the start; None: off."""
        return self._rules

    @model_validator(mode="before")
    @classmethod
    def _off(cls, value: Any) -> Any:
        return {} if value is False or value == "off" else value  # to YAML `off` is false


class DiscoverySection(_ConfigSection):
    """How often clients may ask for leaders, for coordinators and for producer ids."""

    settings: dict[str, Any] = Field(default_factory=dict)
    """In the form of `settings_file`, for settings that do not change while the gateway runs."""
    settings_file: Path | None = None
    """YAML; relative to the configuration file, and read again when it changes."""
    _read: DiscoverySettings = PrivateAttr(default=DiscoverySettings())

    @property
    def read(self) -> DiscoverySettings:
        """The settings at the start."""
        return self._read

    @field_validator("settings")
    @classmethod
    def _can_be_read(cls, settings: dict[str, Any]) -> dict[str, Any]:
        try:
            parse_settings(settings)
        except SettingsError as error:
            raise ValueError("; ".join(error.faults)) from None
        return settings

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.settings and self.settings_file is not None:
            raise ValueError("settings and settings_file both say how often clients may ask; leave one out")
        return self


class Limits(_ConfigSection):
    """Bounds on the resources that clients can take."""

    max_request_bytes: Annotated[int, Field(ge=1024, le=2_147_483_647)] = 104_857_600
    max_connections: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    max_connections_per_user: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Limit for one user. Default: half of `max_connections`, or all where only one user can log in."""
    max_connections_per_address: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Limit for one address. Default: all, since behind a load balancer all clients have one address."""
    max_in_flight_per_connection: Annotated[int, Field(ge=1, le=10_000)] = 100
    idle_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = 600_000
    handshake_ms: Annotated[int, Field(ge=100, le=86_400_000)] = 10_000
    """Longest time of a client's TLS handshake."""
    max_handshakes: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    """TLS handshakes at once: the next ones wait until some have ended, or overdue ones were ended for them."""
    login_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = 30_000
    """Longest time from a client's connection to its login."""
    max_logins: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    """Clients that have not logged in, at once: the next ones wait until some have, or overdue ones were ended."""

    max_login_bytes: Annotated[int, Field(ge=1024, le=2_147_483_647)] = 131_072
    """Limit for a request of a client that has not logged in."""
    frame_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = 60_000
    """Longest time for a request to arrive."""
    min_produce_bytes_s: Annotated[int, Field(ge=1, le=1_000_000_000)] = 16_384
    """A produce request that is forwarded as it arrives gets the time of its bytes at this rate in addition."""
    max_elements: Annotated[int, Field(ge=1000, le=1_000_000)] = 100_000
    """Limit for one request: items of all its lists together."""
    max_partitions: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    """Limit for one produce, and as many topics; for a fetch twice as many of both together."""
    max_created_partitions: Annotated[int, Field(ge=1, le=2_147_483_647)] = 10_000
    """Partitions that one request may add: of all topics that it creates or grows together."""
    max_held_bytes: Annotated[int, Field(ge=1024)] = 1 << 30
    """Limit for the incomplete requests of all clients."""

    @model_validator(mode="after")
    def _one_request_fits(self) -> Self:
        if self.max_held_bytes < self.max_request_bytes:
            raise ValueError(
                f"max_held_bytes={self.max_held_bytes} is less than one request may have "
                f"(max_request_bytes={self.max_request_bytes}); raise it, or lower that"
            )
        return self

    def wire(self) -> WireLimits:
        """The codec's limits under this configuration."""
        return WireLimits(
            max_request_bytes=self.max_request_bytes,
            max_login_bytes=self.max_login_bytes,
            max_partitions=self.max_partitions,
            max_inline=self.max_elements,
            max_created_partitions=self.max_created_partitions,
        )


class LogSection(_ConfigSection):
    level: Literal["debug", "info", "warning", "error"] = "info"


class ClientZonesSection(_ConfigSection):
    """Zones of clients; the section has to be equal at all gateways."""

    networks: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=255)], list[IPvAnyNetwork]], Field(max_length=1000)
    ] = {}
    """Zone → networks (CIDR); the narrowest that has the client's address counts."""
    others: Literal["any", "asked"] = "any"
    """Clients of no such network go to gateways of all zones, or of the zone of the gateway that they ask."""

    @model_validator(mode="after")
    def _each_network_is_in_one_zone(self) -> Self:
        seen: dict[object, str] = {}
        for zone, networks in self.networks.items():
            for network in networks:
                if seen.setdefault(network, zone) != zone:
                    raise ValueError(f"networks: {network} is in {seen[network]} and in {zone}; give it to one of them")
        if len(seen) > MAX_NETWORKS:
            raise ValueError(f"networks: {len(seen)}, at most {MAX_NETWORKS}; merge some of them")
        return self


class Config(_ConfigSection):
    """The whole file."""

    id: Name
    """This gateway's name; unique among all gateways of the tree. A worker has its own (`as_worker`)."""
    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS)] = 1
    """Processes that serve clients in parallel, each on its own core."""
    zookeeper: ZooKeeper
    listen: Listen = Listen()
    listen_discovery: ListenDiscovery | None = None
    nodes: NodePorts = NodePorts()
    http: Http = Http()
    tls: Tls | None = None
    authentication: AuthenticationSection
    """No default: the operator decides whether clients may connect without a login."""
    authorisation: Authorisation = Authorisation()
    platform: PlatformSection | None = None
    """The source of users, rules and settings that no file names."""
    security_profiles: dict[str, Any] = Field(default_factory=dict, repr=False, exclude=True)
    """How the gateway itself logs in to clusters, as in a security file (`ha_core/kafka/security`), but with passwords
    in files only."""
    limits: Limits = Limits()
    discovery: DiscoverySection = DiscoverySection()
    zone: Annotated[str, Field(max_length=255)] = ""
    client_zones: ClientZonesSection = ClientZonesSection()
    record_facts_s: Annotated[int, Field(ge=0, le=86_400)] = 60
    """How often one of the gateways records the facts of each cluster; 0: never this one."""
    log: LogSection = LogSection()
    _profiles: Mapping[str, SecurityProfile] = PrivateAttr(default_factory=dict)
    _folder: Path = PrivateAttr(default=Path())
    """The folder of the configuration file."""
    _worker_of: str = PrivateAttr(default="")

    @property
    def worker_of(self) -> str:
        """The gateway that this worker belongs to; "": the gateway has one process."""
        return self._worker_of

    @property
    def gateway(self) -> str:
        """The gateway's name, in each of its processes."""
        return self._worker_of or self.id

    def as_worker(self, number: int) -> Config:
        """The configuration of one worker: its own name and node ports, and its share of the common limits.

        Limits of a single client are not divided, since all requests of a client reach one worker.
        """
        limits, count = self.limits, self.nodes.count
        part = self.model_copy(
            update={
                "id": f"{self.id}.{number}",
                "nodes": NodePorts.model_construct(first_port=self.nodes.first_port + number * count, count=count),
                "limits": limits.model_copy(
                    update={
                        **{name: self._part(getattr(limits, name)) for name in _DIVIDED},
                        # The largest request has to fit into each worker.
                        "max_held_bytes": max(self._part(limits.max_held_bytes), limits.max_request_bytes),
                    }
                ),
                "authentication": self.authentication.model_copy(
                    update={"failures_per_address": self._part(self.authentication.failures_per_address)}
                ),
            }
        )
        part._worker_of = self.id
        return part

    def _part(self, whole: int) -> int:
        return -(-whole // self.workers)

    @property
    def zones_of_clients(self) -> ClientZones:
        section = self.client_zones
        return ClientZones.of(section.networks, self.zone if section.others == "asked" else NOWHERE)

    @property
    def profiles(self) -> Mapping[str, SecurityProfile]:
        """The accounts of `security_profiles`, by name."""
        return self._profiles

    def follows(self, kind: str) -> bool:
        """Whether the platform is the source of `kind`."""
        return self.platform is not None and kind in self.platform.follows

    @property
    def rules_file(self) -> Path | None:
        """The file of access rules; None: there are none."""
        named = self.authorisation.rules_file
        return None if named is None else self._folder / named

    @property
    def settings_file(self) -> Path | None:
        """The file of discovery settings, which may change while the gateway runs; None: there is none."""
        named = self.discovery.settings_file
        return None if named is None else self._folder / named

    @field_validator("security_profiles")
    @classmethod
    def _passwords_in_files(cls, accounts: dict[str, Any]) -> dict[str, Any]:
        for name, account in accounts.items():
            if isinstance(account, Mapping) and "password" in account:
                raise ValueError(
                    f"profile {name}: a password does not belong in this file; write it into a file of its own and "
                    f"name that: `password_file: …`"
                )
        return accounts

    @model_validator(mode="after")
    def _somebody_can_come_in(self) -> Self:
        section, by_certificate = self.authentication, self.tls is not None and self.tls.principal_rules
        has_users = section.users_file is not None or self.follows("users")
        if not section.anonymous and not has_users and section.oauth is None and not by_certificate:
            raise ValueError(
                "authentication: nobody can log in: give users_file or oauth, follow the users of a platform, set "
                "anonymous: true, or let certificates name users (tls.principal_rules)"
            )
        return self

    @model_validator(mode="after")
    def _each_thing_from_one_place(self) -> Self:
        if self.follows("users") and self.authentication.users_file is not None:
            raise ValueError(
                "authentication.users_file and platform.follows: both say who can log in; leave users_file out, or "
                "users out of follows"
            )
        if self.follows("settings") and (self.discovery.settings or self.discovery.settings_file is not None):
            raise ValueError(
                "discovery and platform.follows: both say how often clients may ask; leave settings out of one of them"
            )
        if self.follows("rules") and "authorisation" in self.model_fields_set:
            setting = "off" if self.authorisation.rules_file is None else "rules_file"
            raise ValueError(
                f"authorisation ({setting}) and platform.follows: both say who may do what; leave authorisation out, "
                "or rules out of follows"
            )
        return self

    @model_validator(mode="after")
    def _ports_do_not_collide(self) -> Self:
        nodes = range(self.nodes.first_port, self.nodes.first_port + self.workers * self.nodes.count)
        if nodes.stop > _LAST_PORT + 1:
            raise ValueError(
                f"workers={self.workers} with nodes.count={self.nodes.count} ports each from nodes.first_port="
                f"{self.nodes.first_port} on pass port {_LAST_PORT}; lower one of the three"
            )
        discovery = [] if self.listen_discovery is None else [("listen_discovery.port", self.listen_discovery.port)]
        if discovery and discovery[0][1] in (self.listen.port, self.http.port):
            raise ValueError(
                f"listen_discovery.port={discovery[0][1]} is another listener's too; give it one of its own"
            )
        for key, port in (("listen.port", self.listen.port), ("http.port", self.http.port), *discovery):
            if port in nodes:
                raise ValueError(
                    f"{key}={port} lies among the ports of virtual nodes ({nodes.start} to {nodes.stop - 1}); "
                    f"move it or nodes.first_port"
                )
        if self.listen.port == self.http.port and self.listen.host == self.http.host:
            raise ValueError(f"listen.port and http.port are both {self.http.port}; give them different ports")
        return self


def read(path: Path | str) -> str:
    """The text of a configuration file.

    :raises ConfigError: it cannot be read.
    """
    return _text(Path(path), "the configuration")


def load(path: Path | str, text: str | None = None) -> Config:
    """Reads and checks a configuration with the files that it names.

    :param text: the text of the file, if it was read already (`read`).
    :raises ConfigError: one line per fault.
    """
    file = Path(path)
    try:
        config = Config.model_validate(_parsed(file, read(file) if text is None else text))
    except ValidationError as error:
        raise ConfigError("\n".join(_lines(file, error))) from None
    folder = file.parent
    auth = config.authentication
    if auth.users_file is not None:
        auth._users = _users(folder / auth.users_file, f"{file}: authentication.users_file")
    auth._iterations = ITERATIONS if config.follows("users") else MIN_ITERATIONS
    if auth.phantom_secret_file is not None:
        auth._phantom_secret = _secret(folder / auth.phantom_secret_file, f"{file}: authentication.phantom_secret_file")
        phantoms = Phantoms(auth._phantom_secret, auth.iterations)
        auth._users = with_keys(auth._users, [name for name in auth.mechanisms if name in HASHES], phantoms)
    if auth.oauth is not None:
        auth._jwks = _jwks(auth.oauth, folder, f"{file}: authentication.oauth.jwks")
    if config.http.token_file is not None:
        config.http._token = _secret(folder / config.http.token_file, f"{file}: http.token_file")
    config._folder = folder
    if config.rules_file is not None:
        config.authorisation._rules = read_rules(config.rules_file, f"{file}: authorisation.rules_file")
    if config.settings_file is None:
        config.discovery._read = parse_settings(config.discovery.settings)
    else:
        config.discovery._read = read_settings(config.settings_file, f"{file}: discovery.settings_file")
    _read_security(config, file)
    if config.platform is not None:
        try:
            config.platform.read(folder, f"{file}: platform")
        except PlatformConfigError as error:
            raise ConfigError(str(error)) from None
    try:
        config._profiles = profiles(config.security_profiles, f"{file}: security_profiles", folder, ("password_file",))
    except SecurityProfileError as error:
        raise ConfigError(str(error)) from None
    return config


def read_rules(file: Path, key: str = "the access rules") -> RulesFile:
    """:raises ConfigError: one line per fault; none of the file is used."""
    try:
        return parse(_yaml(file, key))
    except RulesFileError as error:
        raise ConfigError("\n".join(f"{file}: {fault}" for fault in error.faults)) from None


def read_settings(file: Path, key: str = "the settings of discovery") -> DiscoverySettings:
    """:raises ConfigError: one line per fault; none of the file is used."""
    try:
        return parse_settings(_yaml(file, key))
    except SettingsError as error:
        raise ConfigError("\n".join(f"{file}: {fault}" for fault in error.faults)) from None


def open_passwords(config: Config) -> str | None:
    """Why passwords would be sent unencrypted; None: they are not, or only within this machine by permission."""
    if PLAIN not in config.authentication.mechanisms or config.tls is not None:
        return None
    if not (config.authentication.users or config.follows("users")):
        return None
    flag = "authentication.plain_without_tls: true"
    if not on_loopback(config.listen.host):
        return (
            f"listen.host={config.listen.host}: {PLAIN} sends passwords in plain text, and the listener has no TLS; "
            f"add a section tls, or take {PLAIN} out of authentication.mechanisms. Only on 127.0.0.1 a flag allows it "
            f"({flag})"
        )
    if not config.authentication.plain_without_tls:
        return (
            f"authentication.mechanisms: {PLAIN} sends passwords in plain text, and the listener has no TLS; set "
            f"{flag} if everybody who can listen on this machine may know them, or take SCRAM"
        )
    return None


def _read_security(config: Config, file: Path) -> None:
    zookeeper, tls = config.zookeeper, config.tls
    fields = zookeeper.model_dump(
        include={"tls", "username", "password_file"}, exclude_none=True, exclude_defaults=True
    )
    try:
        zookeeper._folder = file.parent
        zookeeper._security = parse_security(fields, f"{file}: zookeeper", file.parent)
    except StoreSecurityError as error:
        raise ConfigError(str(error)) from None
    try:
        if zookeeper.security.tls is not None:
            client_context(zookeeper.security.tls)
        if tls is not None:
            tls.read(file.parent)
    except TlsFilesError as error:
        raise ConfigError(f"{file}: {error}") from None


def _users(file: Path, key: str) -> dict[str, LoginAccount]:
    try:
        return accounts(_yaml(file, key))
    except UsersError as error:
        raise ConfigError(f"{file}: {error}") from None


def _secret(file: Path, key: str) -> bytes:
    secret = _text(file, key).strip()
    if len(secret) < _MIN_SECRET:
        raise ConfigError(f"{key}: {file}: shorter than {_MIN_SECRET} characters; write random ones into it")
    return secret.encode()


def _jwks(oauth: OAuth, folder: Path, key: str) -> str | Path:
    """The URL, or the file's full path; a file is read once, to check it."""
    try:
        if "://" in oauth.jwks:
            demand_allowed(oauth.jwks)
            return oauth.jwks
        Jwks(file := (folder / oauth.jwks).absolute(), oauth.refresh_s).read()
    except JwksError as error:
        raise ConfigError(f"{key}: {error}") from None
    return file


def _text(file: Path, key: str) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise ConfigError(f"{key}: {file}: longer than {_MAX_FILE_BYTES} bytes; this is not the right file")
        return data.decode()
    except OSError as error:
        raise ConfigError(f"{key}: {file}: {error.strerror}; give the path of a readable file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key}: {file}: not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _yaml(file: Path, key: str) -> dict[Any, Any]:
    return _parsed(file, _text(file, key))


def _parsed(file: Path, text: str) -> dict[Any, Any]:
    try:
        document = yaml.load(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise ConfigError(f"{file}: {where}: {error.problem}; correct the YAML there") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: {error}; correct the YAML") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: holds {type(document).__name__}; write `key: value` lines")
    return document


def _lines(file: Path, error: ValidationError) -> Iterable[str]:
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"]) or "the whole file"
        kind, text = fault["type"], fault["msg"].removeprefix("Value error, ")
        if kind == "missing":
            yield f"{file}: {key}: missing; add it"
        elif kind == "extra_forbidden":
            place = fault["loc"]
            keys = ", ".join((_section(str(place[0])) if len(place) > 1 else Config).model_fields)
            yield f"{file}: {key}: {_short(fault['input'])}: no such key here; known keys are {keys}"
        elif kind == "value_error":
            yield f"{file}: {key}: {text}" if fault["loc"] else f"{file}: {text}"
        else:
            yield f"{file}: {key}: {_short(fault['input'])}: {text}; correct the value"


def _section(key: str) -> type[BaseModel]:
    annotation = Config.model_fields[key].annotation
    kinds = (annotation, *get_args(annotation))  # an optional section is a union
    return next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
