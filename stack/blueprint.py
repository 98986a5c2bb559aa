"""From a request to the parts of a stack: ports, passwords, jars, and the document that describes it all."""

import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ha_core.kafka.security import SECURITY_FILE_VARIABLE
from ha_core.store.security import FILE_VARIABLE, OPEN, StoreSecurity
from stack.airflow_part import USER as AIRFLOW_USER
from stack.airflow_part import AirflowSettings, airflow_parts
from stack.certificates import write_private
from stack.class_archive import class_archive
from stack.gateway_part import GatewayPart
from stack.jars import Say, kafka_jars
from stack.java import Java, find_java
from stack.kafka_part import SERVICE_MECHANISM, SERVICE_USER, BrokerAddress, BrokerPart, KafkaCluster, new_cluster_id
from stack.layout import Layout
from stack.mirror_part import MirrorPart
from stack.parts import StackPart
from stack.platform_part import PlatformPart
from stack.ports import RANGED_PORTS, PortBlock, claim
from stack.spark_java import spark_environment
from stack.spark_part import ConnectPart, MasterPart, SparkSettings, WorkerPart
from stack.specs import StackSpec
from stack.tls import StackTls
from stack.zookeeper_part import Ensemble

ZOOKEEPER_ROOT = "/switchyard"
USERS = ("admin", "orders-app", "billing-app", "payments-app")
"""Users of a stack with SASL, at the gateways and the brokers."""


@dataclass
class Blueprint:
    """A stack, ready to be started."""

    layout: Layout
    spec: StackSpec
    ports: PortBlock
    zookeeper: Ensemble
    clusters: tuple[KafkaCluster, ...]
    users: Mapping[str, str]
    service_password: str | None
    phantom_secret: str | None = field(default=None, repr=False)
    """SCRAM secret of the gateways."""
    tls: StackTls | None = None
    brokers: list[BrokerPart] = field(default_factory=list)
    gateways: list[GatewayPart] = field(default_factory=list)
    airflow: AirflowSettings | None = None
    spark: SparkSettings | None = None
    mirror: MirrorPart | None = None
    platform: PlatformPart | None = None

    @property
    def parts(self) -> list[StackPart]:
        airflow = [] if self.airflow is None else airflow_parts(self.airflow)
        platform: list[StackPart] = [] if self.platform is None else [self.platform]
        return [
            *self.zookeeper.members,
            *self.brokers,
            *platform,
            *self.gateways,
            *self._spark_parts(),
            *self._mirror_parts(),
            *airflow,
        ]

    def _mirror_parts(self) -> list[StackPart]:
        return [] if self.mirror is None else [self.mirror]

    def _spark_parts(self) -> list[StackPart]:
        if self.spark is None:
            return []
        parts: list[StackPart] = [
            MasterPart(self.layout.home("spark/master"), self.spark),
            WorkerPart(self.layout.home("spark/worker"), self.spark),
        ]
        if self.spark.connect_port is not None:
            parts.append(ConnectPart(self.layout.home("spark/connect"), self.spark))
        return parts

    def register(self) -> None:
        """Write `/clusters/{name}` for each cluster in one revision; the first one is the default."""
        from ha_core.model.cluster import Cluster
        from ha_core.store.commits import StateChange
        from ha_core.store.zookeeper import connect

        security = "none" if self.service_password is None else "sasl"
        documents = tuple(
            Cluster(name=cluster.name, bootstrap=cluster.bootstrap, security=security, default=number == 0)
            for number, cluster in enumerate(self.clusters)
        )
        change = StateChange(
            puts=documents,
            expected={(Cluster, cluster.name): None for cluster in documents},
            change_id="stack:clusters",
        )
        with closing(connect(self.zookeeper.address, root=ZOOKEEPER_ROOT, security=self.zookeeper.security)) as store:
            store.commit(change)

    def security_variables(self) -> dict[str, str]:
        """Environment variables for commands, tasks and jobs to log in."""
        found = {} if self.service_password is None else {SECURITY_FILE_VARIABLE: str(self.layout.security)}
        return found | ({} if self.tls is None else {FILE_VARIABLE: str(self.layout.zookeeper_security)})

    def document(self, pids: Mapping[str, int | None]) -> dict[str, Any]:
        """The output of `up`."""
        service = None if self.service_password is None else {"user": SERVICE_USER, "password": self.service_password}
        settings = self.airflow
        airflow = (
            None if settings is None else {"url": settings.url, "user": AIRFLOW_USER, "password": settings.password}
        )
        return {
            "dir": str(self.layout.root),
            "zookeeper": self.zookeeper.address,
            "clusters": {
                cluster.name: {"version": cluster.version, "bootstrap": cluster.bootstrap} for cluster in self.clusters
            },
            "gateways": [
                {
                    "id": gateway.gateway_id,
                    "pid": pids.get(gateway.name),
                    "bootstrap": gateway.bootstrap,
                    "http": gateway.http,
                }
                for gateway in self.gateways
            ],
            "bootstrap": ",".join(gateway.bootstrap for gateway in self.gateways),
            "security": self.spec.security,
            "users": dict(self.users),
            "service": service,
            "security_file": None if service is None else str(self.layout.security),
            "tls": None if self.tls is None else self.tls.document(),
            "zookeeper_security_file": None if self.tls is None else str(self.layout.zookeeper_security),
            "platform": None if self.platform is None else self.platform.document(),
            "airflow": airflow,
            "spark": None if self.spark is None else self.spark.document(),
            "mirror": None if self.mirror is None else {"metrics": f"127.0.0.1:{self.mirror.metrics_port}"},
        }


def draw(layout: Layout, request: Mapping[str, Any], say: Say) -> Blueprint:
    """Choose ports and passwords and fetch what is missing. Slow where jars are missing; raises StackError."""
    spec = StackSpec.from_json(request["spec"])
    java = find_java()
    say(f"using {java.location}")
    versions = sorted({cluster.version for cluster in spec.clusters})
    with ThreadPoolExecutor(len(versions)) as pool:
        programs = dict(zip(versions, pool.map(lambda one: _program(one, java, spec, say), versions), strict=True))
    ports = claim()
    sasl = spec.security != "none"
    service_password = secrets.token_urlsafe(18) if sasl else None
    users = {user: secrets.token_urlsafe(12) for user in USERS} if sasl else {}
    tls = StackTls.make(layout.tls, SERVICE_USER, USERS) if spec.security == "tls" else None
    zookeeper_security = OPEN
    if service_password is not None:
        _write_security(layout.security, service_password, tls)
    if service_password is not None and tls is not None:
        zookeeper_security = _write_zookeeper_security(layout.zookeeper_security, service_password, tls)
    clusters = tuple(
        KafkaCluster(
            name=one.name,
            version=one.version,
            cluster_id=new_cluster_id(),
            brokers=tuple(
                BrokerAddress(node, ports.next_port(), ports.next_port()) for node in range(1, one.brokers + 1)
            ),
            service_password=service_password,
            users=users,
            tls=tls,
        )
        for one in spec.clusters
    )
    blueprint = Blueprint(
        layout=layout,
        spec=spec,
        ports=ports,
        zookeeper=Ensemble.of(spec.zookeepers, layout.home, ports.next_port, java, tls, zookeeper_security),
        clusters=clusters,
        users=users,
        service_password=service_password,
        phantom_secret=secrets.token_urlsafe(32) if sasl else None,
        tls=tls,
    )
    for cluster in clusters:
        for address in cluster.brokers:
            home = layout.home(f"cluster/{cluster.name}/{address.node_id}")
            jars, archive = programs[cluster.version]
            blueprint.brokers.append(BrokerPart(cluster, address, home, jars, java, spec.full_speed, archive))
    if spec.platform:
        blueprint.platform = PlatformPart(
            home=layout.home("platform"),
            port=ports.next_port(),
            zookeeper=blueprint.zookeeper.address,
            zookeeper_root=ZOOKEEPER_ROOT,
            users=users,
            security=blueprint.security_variables(),
            tls=tls,
        )
    for number in range(1, spec.gateways + 1):
        blueprint.gateways.append(_gateway(number, blueprint))
    if spec.spark:
        blueprint.spark = SparkSettings(
            environment=spark_environment(java, spec.full_speed),
            master_port=ports.next_port(),
            master_ui_port=ports.next_port(),
            worker_port=ports.next_port(),
            worker_ui_port=ports.next_port(),
            connect_port=ports.next_port() if spec.spark_connect else None,
            cores=2 if spec.mirror else 1,
        )
    if spec.mirror:
        blueprint.mirror = MirrorPart(
            home=layout.home("mirror"),
            zookeeper=blueprint.zookeeper.address,
            zookeeper_root=ZOOKEEPER_ROOT,
            environment=spark_environment(java, spec.full_speed),
            security=blueprint.security_variables(),
            zookeeper_security=zookeeper_security,
            master=None if blueprint.spark is None else blueprint.spark.master,
            driver_port=ports.next_port(),
            metrics_port=ports.next_port(),
        )
    if spec.airflow:
        blueprint.airflow = AirflowSettings(
            home=layout.home("airflow"),
            port=ports.next_port(),
            worker_log_port=ports.next_port(),
            triggerer_log_port=ports.next_port(),
            zookeeper=blueprint.zookeeper.address,
            zookeeper_root=ZOOKEEPER_ROOT,
            service_user=SERVICE_USER,
            service_password=service_password,
            password=secrets.token_urlsafe(12),
            secret=secrets.token_urlsafe(32),
            spark_master=None if blueprint.spark is None else blueprint.spark.master,
            spark_environment=spark_environment(java, spec.full_speed),
            security=blueprint.security_variables(),
            tls=None if tls is None else tls.as_client,
            platform_file=None if blueprint.platform is None else blueprint.platform.database_file,
        )
    return blueprint


def _program(version: str, java: Java, spec: StackSpec, say: Say) -> tuple[Path, Path | None]:
    """Kafka's jars, and the archive of its classes if it is worth making."""
    jars = kafka_jars(version, java, say)
    return jars, None if spec.full_speed else class_archive(version, jars, java, say)


def _write_security(file: Path, password: str, tls: StackTls | None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    account = {"mechanism": SERVICE_MECHANISM, "username": SERVICE_USER, "password": password}
    profile: dict[str, Any] = account | ({} if tls is None else {"tls": tls.as_client})
    write_private(file, yaml.safe_dump({"sasl": profile}).encode())


def _write_zookeeper_security(file: Path, password: str, tls: StackTls) -> StoreSecurity:
    secret = file.with_suffix(".password")
    write_private(secret, password.encode())
    account = {"username": SERVICE_USER, "password_file": str(secret)}
    write_private(file, yaml.safe_dump({"tls": tls.as_client, **account}).encode())
    return StoreSecurity(tls.files, SERVICE_USER, password)


def _gateway(number: int, blueprint: Blueprint) -> GatewayPart:
    ports, spec = blueprint.ports, blueprint.spec
    node_ports = RANGED_PORTS // (spec.gateways * spec.workers)
    return GatewayPart(
        number=number,
        home=blueprint.layout.home(f"gateway/{number}"),
        port=ports.next_port(),
        http_port=ports.next_port(),
        first_node_port=ports.take_range(node_ports * spec.workers),
        node_ports=node_ports,
        zookeeper=blueprint.zookeeper.address,
        zookeeper_root=ZOOKEEPER_ROOT,
        users=blueprint.users,
        service_user=SERVICE_USER,
        service_password=blueprint.service_password,
        phantom_secret=blueprint.phantom_secret,
        tls=blueprint.tls,
        record_facts_s=spec.record_facts_s,
        platform=blueprint.platform,
        workers=spec.workers,
        keep_in_zones=spec.keep_in_zones,
    )
