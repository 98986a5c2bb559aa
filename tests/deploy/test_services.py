"""The containers run the same commands, settings and names as the local stack."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import load
from stack.airflow_part import _HEALTH_KEYS, AirflowSettings, airflow_parts
from stack.gateway_part import GatewayPart
from stack.java import Java
from stack.kafka_part import BrokerAddress, BrokerPart, KafkaCluster
from stack.spark_part import MasterPart, SparkSettings, WorkerPart
from stack.zookeeper_part import ZooKeeperPart
from tests.dags import airflow_home  # noqa: F401 - before anything of airflow
from tests.deploy.compose import AIRFLOW, COMPOSE, GATEWAYS, ROOT, SERVICES, at_secrets, gateway_config, health_check

PYTHON = "python"
JAVA = Java(Path("/java"), "")
CLUSTER = KafkaCluster("east", "4.3.1", "id", (BrokerAddress(1, 9092, 9093),), service_password=None)
STACK_AIRFLOW = AirflowSettings(
    home=Path("/home"),
    port=8080,
    worker_log_port=1,
    triggerer_log_port=2,
    zookeeper="127.0.0.1:2181",
    zookeeper_root="/switchyard",
    service_user="switchyard",
    service_password=None,
    password="",
    secret="",
    spark_master="spark://127.0.0.1:7077",
    spark_environment={},
)
OWN_TO_THE_STACK = {
    "AIRFLOW_HOME",  # set by the image
    "AIRFLOW__CORE__DAGS_FOLDER",
    "AIRFLOW__CORE__PLUGINS_FOLDER",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE",
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL",
    "AIRFLOW__API__BASE_URL",
    "AIRFLOW__API__HOST",
    "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT",  # several stacks share a machine, containers share nothing
    "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT",
    "AIRFLOW_CONN_SPARK_SWITCHYARD",
    "AIRFLOW_CONN_SWITCHYARD_ZOOKEEPER",
    "SWITCHYARD_HISTORY",
    "NO_PROXY",
    "no_proxy",
}
"""Differences between stack and containers that are due to their places."""


def environment(service: str) -> dict[str, str]:
    found: dict[str, str] = SERVICES[service]["environment"]
    return found


# -- gateways


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_gateways_configuration_passes_its_own_check(name: str, secrets: Path, tmp_path: Path) -> None:
    # Given a gateway's configuration with the secrets of this machine
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(at_secrets(gateway_config(name), secrets)))
    # When it is checked
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "--config", file, "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # Then it is sound
    assert done.returncode == 0, done.stderr
    assert f"gateway {gateway_config(name)['id']}" in done.stdout


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_gateway_is_started_as_in_the_stack(name: str) -> None:
    part = GatewayPart(1, Path("/etc/switchyard"), 1, 2, 3, 4, "zk:2181", "/switchyard", {}, "switchyard", None)

    assert SERVICES[name]["command"] == [PYTHON, *part.command().argv[1:]]
    assert SERVICES[name]["configs"][0]["target"] == part.command().argv[-1]


def test_gateways_differ_in_name_and_ports_only() -> None:
    first, second = (gateway_config(name) for name in GATEWAYS)
    own = {"id", "listen", "nodes", "http"}

    assert {key: first[key] for key in set(first) - own} == {key: second[key] for key in set(second) - own}
    assert all(first[key] != second[key] for key in own)


@pytest.mark.parametrize("name", GATEWAYS)
def test_every_gateway_is_configured_to_record_facts(name: str, secrets: Path, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(at_secrets(gateway_config(name), secrets)))

    assert load(file).record_facts_s == 60


def test_gateways_tasks_and_the_command_line_use_one_login_to_clusters(secrets: Path, tmp_path: Path) -> None:
    from ha_core.kafka.security import load_profiles

    document = yaml.safe_load(COMPOSE["configs"]["security"]["content"])
    file = tmp_path / "security.yaml"
    file.write_text(yaml.safe_dump(at_secrets(document, secrets)))

    assert all(gateway_config(name)["security_profiles"] == document for name in GATEWAYS)
    assert load_profiles(file)["sasl"].password == (secrets / "service-password").read_text().strip()


# -- ZooKeeper and Kafka


def test_zookeeper_grants_the_session_timeout_of_gateways(tmp_path: Path) -> None:
    ZooKeeperPart(tmp_path, 2181, JAVA).prepare()
    stack = dict(line.split("=", 1) for line in (tmp_path / "zoo.cfg").read_text().split())
    given = environment("zookeeper")
    asked_ms = gateway_config(GATEWAYS[0])["zookeeper"]["session_timeout_ms"]

    assert given["ZOO_TICK_TIME"] == stack["tickTime"]
    assert given["ZOO_MAX_CLIENT_CNXNS"] == stack["maxClientCnxns"]
    assert given["ZOO_ADMINSERVER_ENABLED"] == stack["admin.enableServer"]
    assert 2 * int(given["ZOO_TICK_TIME"]) <= asked_ms <= 20 * int(given["ZOO_TICK_TIME"])


@pytest.mark.parametrize("name", ["kafka-east", "kafka-west"])
def test_a_broker_is_configured_as_in_the_stack(name: str) -> None:
    # Given a broker's settings in the stack, and those of its service
    version = SERVICES[name]["image"].partition(":")[2]
    cluster = KafkaCluster(name, version, "id", CLUSTER.brokers, service_password=None)
    stack = BrokerPart(cluster, CLUSTER.brokers[0], Path("/home"), Path("/jars"), JAVA).settings()
    of_the_place = {"listeners", "advertised.listeners", "controller.quorum.voters", "log.dirs"}
    given = {
        key.removeprefix("KAFKA_").replace("_", ".").lower(): value
        for key, value in environment(name).items()
        if key.startswith("KAFKA_") and key != "KAFKA_HEAP_OPTS"
    }
    # When they are compared
    # Then they only differ in settings of the place
    assert set(given) == set(stack)
    assert {k: v for k, v in given.items() if k not in of_the_place} == {
        k: v for k, v in stack.items() if k not in of_the_place
    }


def test_the_two_clusters_have_different_ids_and_volumes() -> None:
    east, west = SERVICES["kafka-east"], SERVICES["kafka-west"]

    assert east["environment"]["CLUSTER_ID"] != west["environment"]["CLUSTER_ID"]
    assert not set(east["volumes"]) & set(west["volumes"])


# -- Airflow


def test_airflow_components_are_started_as_in_the_stack() -> None:
    parts = {f"airflow-{part.component}": part for part in airflow_parts(STACK_AIRFLOW)}

    assert set(AIRFLOW) == {*parts, "airflow-migrate"}
    for name, part in parts.items():
        assert SERVICES[name]["command"] == [PYTHON, *part.command().argv[1:]]
        assert health_check(name)[-1] == _HEALTH_KEYS[part.component]


def test_airflows_database_and_pool_are_created_as_in_the_stack(tmp_path: Path) -> None:
    part = airflow_parts(replace(STACK_AIRFLOW, home=tmp_path))[0]
    shell, option, text = SERVICES["airflow-migrate"]["command"]

    assert (shell, option) == ("bash", "-c")
    assert [shlex.split(command) for command in text.split("&&")] == [
        [PYTHON, *command.argv[1:]] for command in part.prepare()
    ]


def test_airflow_is_configured_as_in_the_stack() -> None:
    stack = STACK_AIRFLOW.environment()
    given = environment("airflow-scheduler")
    secret = {key.removesuffix("_CMD") for key in given if key.endswith("_CMD")}

    assert {key: value for key, value in stack.items() if key not in OWN_TO_THE_STACK | secret} == {
        key: given.get(key) for key in stack if key not in OWN_TO_THE_STACK | secret
    }
    assert secret <= set(stack) | {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"}
    assert {key for key in stack if key.startswith(("AIRFLOW_CONN_", "SWITCHYARD_"))} <= set(given)


def test_every_airflow_setting_is_known_and_secret_ones_come_from_files() -> None:
    from airflow.configuration import conf

    # Given the settings that Airflow knows
    known = {
        f"AIRFLOW__{section}__{option}".upper(): bool(about.get("sensitive"))
        for section, about_section in conf.configuration_description.items()
        for option, about in about_section["options"].items()
    }
    # When those of each service are compared
    # Then each is known, and sensitive ones are commands that read a file
    for name in AIRFLOW:
        given = {key for key in environment(name) if key.startswith("AIRFLOW__")}
        assert {key.removesuffix("_CMD") for key in given} <= set(known)
        assert {key.removesuffix("_CMD") for key in given if key.endswith("_CMD")} == {
            key.removesuffix("_CMD") for key in given if known.get(key.removesuffix("_CMD"))
        }


@pytest.mark.airflow
def test_airflow_reads_its_secrets_from_the_files(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.configuration import conf
    from cryptography.fernet import Fernet

    # Given the commands that read secrets
    for key, command in environment("airflow-scheduler").items():
        if key.endswith("_CMD"):
            *words, file = command.split()
            assert words == ["awk", "1", "ORS="]
            assert file.removeprefix("/run/secrets/") in SERVICES["airflow-scheduler"]["secrets"]
            monkeypatch.delenv(key.removesuffix("_CMD"), raising=False)
            monkeypatch.setenv(key, shlex.join([*words, at_secrets(file, secrets)]))
    # When Airflow reads its settings
    # Then they are the contents of the files
    assert Fernet(conf.get("core", "fernet_key"))
    assert conf.get("api_auth", "jwt_secret") == (secrets / "airflow-jwt-secret").read_text().strip()
    assert conf.get("api", "secret_key") == (secrets / "airflow-api-secret").read_text().strip()
    password = (secrets / "postgres-password").read_text().strip()
    url = f"postgresql+psycopg://airflow:{password}@postgres:5432/airflow"
    assert conf.get("database", "sql_alchemy_conn") == conf.get("database", "sql_alchemy_conn_async") == url


def test_the_database_and_the_administrator_use_the_secrets(secrets: Path) -> None:
    postgres = environment("postgres")
    user = environment("airflow-api-server")["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"].partition(":")[0]

    assert (postgres["POSTGRES_USER"], postgres["POSTGRES_DB"]) == ("airflow", "airflow")
    assert set(json.loads((secrets / "airflow-passwords.json").read_text())) == {user}


def test_airflow_connections_have_known_types_and_lead_to_services() -> None:
    from ha_core.hooks.zookeeper import SwitchyardHook, hosts
    from ha_core.provider import get_provider_info

    # Given the connections of the scheduler
    given = environment("airflow-scheduler")
    connection: dict[str, Any] = json.loads(given["AIRFLOW_CONN_SWITCHYARD_ZOOKEEPER"])
    fields = {kind["connection-type"]: set(kind["conn-fields"]) for kind in get_provider_info()["connection-types"]}
    # When they are compared with hook, provider and services
    # Then they all match
    assert SwitchyardHook.default_conn_name == "switchyard_zookeeper"
    assert set(connection["extra"]) <= fields[connection["conn_type"]]
    assert hosts(connection["host"], None) == given["SWITCHYARD_ZOOKEEPER"] == "zookeeper:2181"
    assert connection["extra"]["root"] == gateway_config(GATEWAYS[0])["zookeeper"]["root"]
    assert connection["extra"]["security_file"] == SERVICES["airflow-scheduler"]["configs"][0]["target"]
    assert given["SWITCHYARD_SECURITY_FILE"] == SERVICES["switchyard"]["configs"][0]["target"]


# -- Spark


def test_spark_components_are_started_as_in_the_stack(tmp_path: Path) -> None:
    settings = SparkSettings({"SPARK_HOME": "/venv"}, 7077, 8080, 7078, 8081, connect_port=None)
    for part in (MasterPart(tmp_path, settings), WorkerPart(tmp_path, settings)):
        _bash, program, *stack = part.command().argv
        given = SERVICES[part.name.replace("/", "-")]["command"]

        assert given[:2] == [Path(program).name, stack[0]]
        assert {word for word in given if word.startswith("--")} <= {word for word in stack if word.startswith("--")}
        assert given[-1].startswith("spark://") == stack[-1].startswith("spark://")


def test_tasks_submit_to_the_master_and_share_their_history_with_the_executors() -> None:
    stack = json.loads(STACK_AIRFLOW.environment()["AIRFLOW_CONN_SPARK_SWITCHYARD"])
    given = json.loads(environment("airflow-scheduler")["AIRFLOW_CONN_SPARK_SWITCHYARD"])
    history = f"history:{environment('airflow-scheduler')['SWITCHYARD_HISTORY']}"

    assert given == stack | {"host": "spark://spark-master"}
    assert f"{given['host']}:{given['port']}" == SERVICES["spark-worker"]["command"][-1]
    assert history in SERVICES["airflow-scheduler"]["volumes"]
    assert history in SERVICES["spark-worker"]["volumes"]


def test_every_switchyard_setting_of_a_service_is_read_by_the_code() -> None:
    files = [file for part in ("ha_core", "spark_jobs", "dags", "stack") for file in (ROOT / part).rglob("*.py")]
    code = "".join(file.read_text("utf-8") for file in files)

    for service in SERVICES.values():
        for key in service.get("environment", {}):
            assert not key.startswith("SWITCHYARD_") or f'"{key}"' in code
