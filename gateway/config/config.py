"""The gateway's YAML file as a whole: all sections, and the rules between them. Passwords are in separate files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from gateway.config.access import Authorisation, DiscoverySection
from gateway.config.authentication import AuthenticationSection
from gateway.config.clients import ClientZonesSection, Limits
from gateway.config.listeners import Http, Listen, ListenDiscovery, NodePorts, Tls
from gateway.config.platform import PlatformSection
from gateway.config.section import ConfigError, ConfigSection, Name
from gateway.config.zookeeper import ZooKeeper
from gateway.model.client_zones import NOWHERE, ClientZones
from ha_core.kafka.errors import SecurityProfileError
from ha_core.kafka.security import profiles
from ha_core.model.access import on_loopback
from ha_core.tls.contexts import TlsFilesError
from ha_core.wire.sasl import PLAIN, SecurityProfile

MAX_WORKERS = 64
_LAST_PORT = 65_535
_DIVIDED = ("max_connections", "max_handshakes", "max_logins")
"""Limits of all clients together."""


class LogSection(ConfigSection):
    level: Literal["debug", "info", "warning", "error"] = "info"


class Config(ConfigSection):
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
    def _some_client_can_log_in(self) -> Self:
        section, by_certificate = self.authentication, self.tls is not None and self.tls.principal_rules
        has_users = section.users_file is not None or self.follows("users")
        if not section.anonymous and not has_users and section.oauth is None and not by_certificate:
            raise ValueError(
                "authentication: no client can log in: give users_file or oauth, follow the users of a platform, set "
                "anonymous: true, or let certificates name users (tls.principal_rules)"
            )
        return self

    @model_validator(mode="after")
    def _each_thing_from_one_source(self) -> Self:
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

    def read_files(self, file: Path) -> None:
        """Reads the files that the configuration names.

        :param file: the configuration's own.
        :raises ConfigError: one cannot be used.
        """
        folder = self._folder = file.parent
        self.authentication.read_files(folder, f"{file}: authentication", self.follows("users"))
        self.http.read_files(folder, f"{file}: http")
        self.authorisation.read_files(folder, f"{file}: authorisation")
        self.discovery.read_files(folder, f"{file}: discovery")
        try:
            self.zookeeper.read_files(folder, f"{file}: zookeeper")
            if self.tls is not None:
                self.tls.read_files(folder)
        except TlsFilesError as error:
            raise ConfigError(f"{file}: {error}") from None
        if self.platform is not None:
            self.platform.read_files(folder, f"{file}: platform")
        try:
            self._profiles = profiles(self.security_profiles, f"{file}: security_profiles", folder, ("password_file",))
        except SecurityProfileError as error:
            raise ConfigError(str(error)) from None


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
