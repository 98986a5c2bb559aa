"""The state in ZooKeeper as an Airflow connection: the environment of operations."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from ha_core.hooks.kafka import CONNECTION_PREFIX, ServiceAccountHook
from ha_core.model.gateway import by_gateway

if TYPE_CHECKING:
    from ha_core.model import Provenance
    from ha_core.operations.engine.environment import Environment, EnvironmentSettings
    from ha_core.wire.sasl import SecurityProfile


class SwitchyardHook(BaseHook):  # type: ignore[misc]  # airflow is not typed here
    """Connection type `switchyard_zookeeper`: host (`host[:port][,…]`), port, extra `root` and `security_file`."""

    conn_name_attr = "zookeeper_conn_id"
    default_conn_name = "switchyard_zookeeper"
    conn_type = "switchyard_zookeeper"
    hook_name = "Switchyard state (ZooKeeper)"

    def __init__(self, zookeeper_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.zookeeper_conn_id = zookeeper_conn_id

    def get_conn(self, by: str = "airflow", provenance: Provenance | None = None) -> Environment:
        """Open the environment in which operations of `by` run. Close it, or use it in `with`.

        :param provenance: kept with the operations that begin in it.
        :raises StoreUnavailableError: ZooKeeper is out of reach.
        :raises NoStateError: there is no state at the root.
        :raises SecurityProfileError: the security file cannot be used.
        """
        from ha_core.operations.engine.environment import connect

        logging.getLogger("kazoo").setLevel(logging.WARNING)  # operators read task logs for steps alone
        settings = self.settings()
        environment = connect(settings, by, driver="run", provenance=provenance)
        if settings.security_file is None:
            environment.profiles = _Accounts(dict(environment.profiles))
        return environment

    def settings(self) -> EnvironmentSettings:
        """Settings of the connection."""
        from ha_core.operations.engine.environment import DEFAULT_ROOT, DEFAULT_SESSION_TIMEOUT_S, EnvironmentSettings

        found = self.get_connection(self.zookeeper_conn_id)
        extra = found.extra_dejson
        security_file = extra.get("security_file")
        return EnvironmentSettings(
            zookeeper=hosts(found.host or "127.0.0.1", found.port),
            root=extra.get("root") or DEFAULT_ROOT,
            security_file=Path(security_file) if security_file else None,
            session_timeout_s=float(extra.get("session_timeout_s") or DEFAULT_SESSION_TIMEOUT_S),
            # With True a mistyped root would be created, and scheduled runs would succeed on an empty state.
            create_root=False,
        )

    def test_connection(self) -> tuple[bool, str]:
        from ha_core.kafka.errors import SecurityProfileError
        from ha_core.store.errors import StoreError

        try:
            with self.get_conn("airflow:connection-test") as environment:
                view = environment.store.load()
                gateways = by_gateway(environment.store.gateways())
        except (StoreError, SecurityProfileError, ValueError) as error:
            return False, str(error)
        return (
            True,
            f"Revision {view.revision}; clusters: {len(view.clusters)}, live gateways: {len(gateways)}.",
        )


def hosts(host: str, port: int | None) -> str:
    """`a,b:2182` and port 2181 → `a:2181,b:2182`."""
    names = filter(None, (part.strip() for part in host.split(",")))
    return ",".join(name if ":" in name else f"{name}:{port or 2181}" for name in names)


@dataclass
class _Accounts(Mapping[str, "SecurityProfile"]):
    """Profiles by name: those of the security file, else the Airflow connections, looked up on first use."""

    profiles: dict[str, SecurityProfile]

    def __getitem__(self, name: str) -> SecurityProfile:
        if name not in self.profiles:
            from ha_core.hooks.airflow_names import AirflowException

            try:
                self.profiles[name] = ServiceAccountHook(f"{CONNECTION_PREFIX}{name}").get_conn()
            except AirflowException as error:
                raise KeyError(name) from error
        return self.profiles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.profiles)

    def __len__(self) -> int:
        return len(self.profiles)
