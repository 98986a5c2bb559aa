"""The executor's environment, opened in one place: store, Kafka admins, clock, progress output.

The CLI opens it from options and environment variables, an Airflow hook from a connection; operations run alike on it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.security import NO_SECURITY, load_profiles
from ha_core.model import Cluster, Operation, Provenance, View
from ha_core.model.operation import Driver
from ha_core.model.shown import shown
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.engine.revision import AnyOperation
from ha_core.store.security import OPEN_WARNING, StoreSecurity, from_environment
from ha_core.store.store import Store
from ha_core.wire.sasl import SecurityProfile

if TYPE_CHECKING:
    from ha_core.kafka.admin import Admin

DEFAULT_ROOT = "/switchyard"
DEFAULT_SESSION_TIMEOUT_S = 3.0
"""For executors. After it a dead executor is recognised, and the fence that clients wait for can be lifted."""
SILENT_S = 60.0
_log = logging.getLogger("switchyard.moves")


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """Where the state is stored and how clusters are reached."""

    zookeeper: str
    root: str = DEFAULT_ROOT
    security_file: Path | None = None
    session_timeout_s: float = DEFAULT_SESSION_TIMEOUT_S
    zookeeper_security: StoreSecurity | None = None
    """None: read from environment variables."""
    create_root: bool = True
    """Create a missing root; else a missing root is an error, as after a typing mistake."""


def utc_now() -> str:
    """The time as it is written into documents: UTC, ISO 8601, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms_of(at: str) -> int:
    """Milliseconds since 1970."""
    return int(datetime.fromisoformat(at).timestamp() * 1000)


@dataclass
class Environment:
    """An open store, admins by cluster (opened once, kept open), clock and progress. Close it, or use it in `with`."""

    store: Store
    by: str
    driver: Driver = "command"
    provenance: Provenance = field(default_factory=Provenance)
    """Kept with the operations that begin here."""
    profiles: Mapping[str, SecurityProfile] = field(default_factory=lambda: {"none": NO_SECURITY})
    progress: Callable[[str], None] = lambda _text: None
    now: Callable[[], str] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    session_timeout_s: float = DEFAULT_SESSION_TIMEOUT_S
    warnings: tuple[str, ...] = ()
    """Not problems, but the operator should know them."""
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "moves"))
    _admins: dict[tuple[str, str, str], Admin] = field(default_factory=dict)
    _silent: dict[str, float] = field(default_factory=dict)

    def admin(self, cluster: Cluster) -> Admin:
        """The admin connection to `cluster`.

        :raises RefusedError: the cluster's security profile is not in the security file.
        """
        reached = (cluster.name, cluster.bootstrap, cluster.security)
        if reached not in self._admins:
            profile = self.profiles.get(cluster.security)
            if profile is None:
                raise RefusedError(
                    f"Cluster {cluster.name} needs the security profile {cluster.security!r}, which is not known here "
                    f"(known: {', '.join(sorted(self.profiles))}). Add it to the file named by --security-file or "
                    "SWITCHYARD_SECURITY_FILE."
                )
            from ha_core.kafka.admin import Admin

            self._admins[reached] = Admin(cluster, profile)
        return self._admins[reached]

    def note_silent(self, cluster: str) -> None:
        """No broker of the cluster has answered just now."""
        self._silent[cluster] = self.monotonic()

    def is_silent(self, cluster: str, within_s: float = SILENT_S) -> bool:
        """Whether no broker of it answered within `within_s`, so that it need not be waited for again."""
        return self.monotonic() - self._silent.get(cluster, float("-inf")) < within_s

    def operation(self, operation_id: str) -> Operation | None:
        """The operation's document; None if there is none, for any input."""
        found = self.store.read(Operation, operation_id) if operation_id else None
        return found[0] if found else None

    def operation_of(self, kind: type[AnyOperation], operation_id: str) -> AnyOperation | None:
        """As `operation`; None too if it is of another kind."""
        operation = self.operation(operation_id)
        return operation if isinstance(operation, kind) else None

    def clusters_with(self, topic: str, view: View) -> list[str]:
        """Names of the reachable clusters in which `topic` exists."""

        def look(cluster: Cluster) -> str | None:
            try:
                topics = self.admin(cluster).topics([topic], offsets=False)
            except (KafkaAdminError, RefusedError):
                return None
            return cluster.name if topic in topics else None

        found = self.pool.map(look, view.clusters.values())
        return sorted(name for name in found if name is not None)

    def age_s(self, at: str) -> float:
        """Seconds since `at`, at least 0 when this clock is slow."""
        return max(0.0, (datetime.fromisoformat(self.now()) - datetime.fromisoformat(at)).total_seconds())

    def ms_since(self, before: float) -> float:
        """Milliseconds since `before`, on the monotonic clock."""
        return (self.monotonic() - before) * 1000

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return ms_of(self.now())

    def say(self, text: str) -> None:
        """One line for people and for the log."""
        line = shown(text)
        _log.info("%s", line)
        self.progress(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        for admin in self._admins.values():
            admin.close()
        self._admins.clear()
        self.store.close()


def connect(
    connection: EnvironmentSettings,
    by: str,
    progress: Callable[[str], None] = lambda _text: None,
    profiles: Mapping[str, SecurityProfile] | None = None,
    driver: Driver = "command",
    provenance: Provenance | None = None,
) -> Environment:
    """:param by: the user of the following operations: `cli:USER@HOST` or `airflow:DAG/RUN`.
    :param driver: the kind of executor that continues the operations that begin here.
    :param provenance: the people behind these operations; None: `by` is all that is known.
    :param profiles: in place of those of the connection's security file.
    :raises StoreUnavailableError: ZooKeeper is out of reach.
    :raises NoStateError: there is no state at the root, and `create_root` is False.
    :raises SecurityProfileError: the security file cannot be used.
    :raises StoreSecurityError: the settings of the connection to ZooKeeper cannot be used.
    """
    from ha_core.store.zookeeper import connect as connect_store

    security_profiles = load_profiles(connection.security_file) if profiles is None else profiles
    security = from_environment() if connection.zookeeper_security is None else connection.zookeeper_security
    store = connect_store(
        connection.zookeeper,
        root=connection.root,
        session_timeout_s=connection.session_timeout_s,
        create=connection.create_root,
        security=security,
    )
    return Environment(
        store=store,
        by=by,
        driver=driver,
        provenance=provenance or Provenance(),
        profiles=security_profiles,
        progress=progress,
        session_timeout_s=connection.session_timeout_s,
        warnings=(OPEN_WARNING,) if security.open else (),
    )
