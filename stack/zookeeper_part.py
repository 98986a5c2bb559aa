"""ZooKeeper, from pyspark's jars."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ha_core.store.security import OPEN, StoreSecurity
from stack.errors import StackError
from stack.jars import pyspark_jars
from stack.java import SHORT_LIVED, Java
from stack.parts import LOOPBACK, PartNotReadyError, PartProgram, listens
from stack.tls import StackTls

_NEEDED = (
    "zookeeper",
    "slf4j-api",
    "log4j",
    "metrics-core",
    "netty-",
    "snappy-java",
    "commons-io",
    "commons-cli",
    "audience",
)
"""The few of pyspark's 250 jars that it needs: a short class path starts faster."""


_ALONE = "org.apache.zookeeper.server.ZooKeeperServerMain"
_MEMBER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def class_path() -> str:
    """Class path of a ZooKeeper server. Raises StackError if pyspark does not have it."""
    folder = pyspark_jars()
    jars = sorted(str(jar) for jar in folder.glob("*.jar") if jar.name.startswith(_NEEDED))
    if not any("zookeeper-" in jar for jar in jars):
        raise StackError(
            f"no zookeeper-*.jar in {folder}: install the locked pyspark (pip install -r requirements.txt)"
        )
    return os.pathsep.join(jars)


@dataclass(frozen=True)
class QuorumPorts:
    """Ports of a member of an ensemble, which the others connect to."""

    peer: int
    election: int


@dataclass(frozen=True)
class ZooKeeperPart:
    """One ZooKeeper server, alone or as a member of an ensemble."""

    home: Path
    port: int
    java: Java
    tls: StackTls | None = None
    """With TLS the only port requires TLS and certificates."""
    security: StoreSecurity = OPEN
    """Security of its clients."""
    name: str = "zookeeper"
    after: tuple[str, ...] = ()
    end_signal: signal.Signals = signal.SIGTERM
    ready_timeout_s: float = 60.0
    number: int = 1
    """Its id in the ensemble."""
    ensemble: Mapping[int, QuorumPorts] = field(default_factory=dict)
    """Id → ports of all members; empty: it is alone."""

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def prepare(self) -> tuple[PartProgram, ...]:
        self.home.mkdir(parents=True, exist_ok=True)
        port = "clientPort" if self.tls is None else "secureClientPort"
        settings: dict[str, Any] = {
            "dataDir": self.home / "data",
            port: self.port,
            f"{port}Address": LOOPBACK,
            "tickTime": 1000,  # sessions of 2 to 20 seconds
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
        }
        if self.tls is not None:
            settings["serverCnxnFactory"] = "org.apache.zookeeper.server.NettyServerCnxnFactory"
            settings |= self.tls.java(self.tls.zookeeper, words="keyStore trustStore")
        if self.ensemble:
            settings |= {"initLimit": 20, "syncLimit": 5}
            settings |= {
                f"server.{number}": f"{LOOPBACK}:{ports.peer}:{ports.election}"
                for number, ports in self.ensemble.items()
            }
            (self.home / "data").mkdir(exist_ok=True)
            (self.home / "data" / "myid").write_text(str(self.number), "utf-8")
        (self.home / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        (self.home / "log4j2.properties").write_text(LOG4J2, "utf-8")
        return ()

    def command(self) -> PartProgram:
        return PartProgram(
            (
                self.java.binary,
                "-Xmx256m",
                *SHORT_LIVED,
                f"-Dlog4j2.configurationFile={self.home / 'log4j2.properties'}",
                "-cp",
                class_path(),
                _MEMBER if self.ensemble else _ALONE,
                str(self.home / "zoo.cfg"),
            ),
            cwd=self.home,
        )

    def probe(self, started_at: float) -> None:
        listens(self.port)
        from ha_core.store.connection import open_connection
        from ha_core.store.errors import StoreUnavailableError

        try:
            open_connection(self.address, self.security, 6.0, 2.0, 2.0).close()
        except StoreUnavailableError as error:
            raise PartNotReadyError(str(error)) from error


@dataclass(frozen=True)
class Ensemble:
    """All members: `zookeeper` alone, or `zookeeper/1` and so on."""

    members: Sequence[ZooKeeperPart]

    @property
    def address(self) -> str:
        return ",".join(member.address for member in self.members)

    @property
    def security(self) -> StoreSecurity:
        return self.members[0].security

    @classmethod
    def of(
        cls,
        count: int,
        home: Callable[[str], Path],
        next_port: Callable[[], int],
        java: Java,
        tls: StackTls | None,
        security: StoreSecurity,
    ) -> Ensemble:
        """:param home: name of a part → its folder."""
        if count == 1:
            return cls([ZooKeeperPart(home("zookeeper"), next_port(), java, tls, security)])
        quorum = {number: QuorumPorts(next_port(), next_port()) for number in range(1, count + 1)}
        names = {number: f"zookeeper/{number}" for number in quorum}
        return cls(
            [
                ZooKeeperPart(
                    *(home(name), next_port(), java, tls, security), name=name, number=number, ensemble=quorum
                )
                for number, name in names.items()
            ]
        )


LOG4J2 = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n%ex
"""
LOG4J1 = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
