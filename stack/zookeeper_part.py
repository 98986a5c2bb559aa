"""ZooKeeper, from pyspark's jars."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

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
class ZooKeeperPart:
    """One ZooKeeper server."""

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

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def prepare(self) -> tuple[PartProgram, ...]:
        self.home.mkdir(parents=True, exist_ok=True)
        port = "clientPort" if self.tls is None else "secureClientPort"
        settings = {
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
                "org.apache.zookeeper.server.ZooKeeperServerMain",
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
