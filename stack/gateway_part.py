"""One gateway of the stack."""

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ha_core.wire.sasl import PLAIN
from ha_core.wire.sasl_scram import HASHES
from stack.kafka_part import SERVICE_MECHANISM
from stack.parts import LOOPBACK, REGISTRATION, PartProgram, get_json
from stack.platform_part import PlatformPart
from stack.tls import CLIENT_RULE, StackTls


@dataclass(frozen=True)
class GatewayPart:
    """`python -m gateway` with its own configuration."""

    number: int
    home: Path
    port: int
    http_port: int
    first_node_port: int
    node_ports: int
    zookeeper: str
    zookeeper_root: str
    users: Mapping[str, str]
    service_user: str
    service_password: str | None
    phantom_secret: str | None = field(default=None, repr=False)
    """SCRAM secret, the same for all gateways; None: no login."""
    tls: StackTls | None = None
    record_facts_s: int = 0
    platform: PlatformPart | None = None
    """None: users are in a file, and may do everything."""
    workers: int = 1
    keep_in_zones: bool = False
    after: tuple[str, ...] = ("zookeeper", "cluster", REGISTRATION, "platform")
    end_signal: signal.Signals = signal.SIGTERM
    ready_timeout_s: float = 60.0

    @property
    def name(self) -> str:
        return f"gateway/{self.number}"

    @property
    def gateway_id(self) -> str:
        return f"gw-{self.number}"

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def http(self) -> str:
        return f"http://{LOOPBACK}:{self.http_port}"

    def prepare(self) -> tuple[PartProgram, ...]:
        self.home.mkdir(parents=True, exist_ok=True)
        sasl = self.service_password is not None
        profiles: dict[str, dict[str, Any]] = {"none": {}}
        if self.service_password is not None:
            password = self.home / "service-password"
            _write_private(password, self.service_password)
            account = {"mechanism": SERVICE_MECHANISM, "username": self.service_user, "password_file": str(password)}
            profiles["sasl"] = account | ({} if self.tls is None else {"tls": self.tls.as_client})
        users = self.home / "users.yaml"
        _write_private(users, yaml.safe_dump(dict(self.users)))
        config: dict[str, Any] = {
            "id": self.gateway_id,
            "workers": self.workers,
            "zookeeper": {
                "hosts": self.zookeeper,
                "root": self.zookeeper_root,
                "session_timeout_ms": 6000,
                "lease_ms": 3000,
            },
            "listen": {"host": LOOPBACK, "port": self.port, "advertised_host": LOOPBACK},
            "nodes": {"first_port": self.first_node_port, "count": self.node_ports},
            "http": {"host": LOOPBACK, "port": self.http_port},
            "authentication": {
                "anonymous": not sasl,
                "users_file": str(users),
                "plain_without_tls": True,  # loopback only
            },
            "security_profiles": profiles,
            "zone": f"zone-{self.number}",
            "client_zones": {"others": "asked" if self.keep_in_zones else "any"},
            "record_facts_s": self.record_facts_s,
            "log": {"level": "info"},
        }
        if self.phantom_secret is not None:
            phantoms = self.home / "phantoms"
            _write_private(phantoms, self.phantom_secret)
            # With TLS on, send no password in clear text even here.
            mechanisms = HASHES if self.tls is not None else (PLAIN, *HASHES)
            config["authentication"] |= {"mechanisms": [*mechanisms], "phantom_secret_file": str(phantoms)}
        if self.tls is not None:
            config["tls"] = {
                "certificate_file": str(self.tls.gateway.certificate),
                "key_file": str(self.tls.gateway.key),
                "ca_file": str(self.tls.authority),
                "client_certificates": "optional",
                "client_ca_file": str(self.tls.authority),
                "principal_rules": [CLIENT_RULE],
            }
            account = {"username": self.service_user, "password_file": str(self.home / "service-password")}
            config["zookeeper"] |= {"tls": self.tls.as_client, **account}
        if self.platform is not None:
            del config["authentication"]["users_file"]
            config["platform"] = self.platform.gateway_section(self.home / "platform")
        self._config.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
        return ()

    @property
    def _config(self) -> Path:
        return self.home / "gateway.yaml"

    def command(self) -> PartProgram:
        return PartProgram((sys.executable, "-m", "gateway", "--config", str(self._config)))

    def probe(self, started_at: float) -> None:
        get_json(f"{self.http}/readyz")


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")
