"""The platform of a stack: `switchyard platform serve` over an SQLite file, with the stack's users in it."""

import secrets
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stack.certificates import write_private
from stack.parts import LOOPBACK, PartProgram, listens
from stack.tls import StackTls

OPERATOR = "stack"
GATEWAYS = "gateways"
ADMIN = "admin"
"""The stack's super user; its other users need rules."""


@dataclass(frozen=True)
class PlatformPart:
    """:ivar security: variables with the paths of ZooKeeper's security files."""

    home: Path
    port: int
    zookeeper: str
    zookeeper_root: str
    users: Mapping[str, str] = field(repr=False)
    security: Mapping[str, str]
    tls: StackTls | None
    operator_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    gateway_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    name: str = "platform"
    after: tuple[str, ...] = ()
    end_signal: signal.Signals = signal.SIGTERM
    ready_timeout_s: float = 60.0

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{LOOPBACK}:{self.port}"

    @property
    def database_file(self) -> Path:
        return self.home / "platform.db"

    @property
    def database(self) -> str:
        return f"sqlite:///{self.database_file}"

    @property
    def gateway_token_file(self) -> Path:
        return self.home / "gateway-token"

    def prepare(self) -> tuple[PartProgram, ...]:
        from ha_core.platform.changing import put
        from ha_core.platform.kinds.users import UserEntry
        from ha_core.platform.platform import Platform
        from ha_core.platform.scram import derive_all

        self.home.mkdir(parents=True, exist_ok=True)
        tokens = f"operator {OPERATOR} {self.operator_token}\ngateway {GATEWAYS} {self.gateway_token}\n"
        write_private(self._tokens, tokens.encode())
        write_private(self.gateway_token_file, self.gateway_token.encode())
        users = [
            UserEntry.read({"name": user, "super_user": user == ADMIN, "scram": derive_all(password)})
            for user, password in self.users.items()
        ]
        with Platform.open(self.database) as registry:
            entries = [user for user in users if registry.read.find("users", user.key) is None]
            if entries:
                registry.apply([put(user) for user in entries], OPERATOR, "users of the stack")
        return ()

    @property
    def _tokens(self) -> Path:
        return self.home / "tokens"

    def gateway_section(self, folder: Path) -> dict[str, Any]:
        """The section `platform:` of a gateway's configuration.

        :param folder: for the gateway's stored state.
        """
        section: dict[str, Any] = {
            "url": self.url,
            "token_file": str(self.gateway_token_file),
            "folder": str(folder),
            "hold_s": 2,
        }
        return section | ({} if self.tls is None else {"tls": {"ca_file": str(self.tls.authority)}})

    def command(self) -> PartProgram:
        where = ("--host", LOOPBACK, "--port", str(self.port), "--tokens", str(self._tokens))
        state = ("--database", self.database, "--zookeeper", self.zookeeper, "--root", self.zookeeper_root)
        tls: tuple[str, ...] = ()
        if self.tls is not None:
            tls = ("--certificate", str(self.tls.gateway.certificate), "--key", str(self.tls.gateway.key))
        program = "from ha_core.cli import main; main()"
        return PartProgram((sys.executable, "-c", program, "platform", "serve", *where, *state, *tls), self.security)

    def probe(self, started_at: float) -> None:
        listens(self.port)

    def document(self) -> dict[str, Any]:
        """The platform's part in the output of `up`."""
        return {
            "url": self.url,
            "operator_token": self.operator_token,
            "gateway_token": self.gateway_token,
            "database": self.database,
        }
