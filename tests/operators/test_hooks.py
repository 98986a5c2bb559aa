"""Airflow connections: their meaning, and their tests."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.kafka.errors import SecurityProfileError
from ha_core.operations.engine.environment import EnvironmentSettings
from ha_core.provider import get_provider_info
from ha_core.wire.sasl import SecurityProfile
from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from ha_core.hooks.kafka import ServiceAccountHook  # noqa: E402
from ha_core.hooks.zookeeper import SwitchyardHook, hosts  # noqa: E402


def set_connection(patch: pytest.MonkeyPatch, name: str, **document: Any) -> None:
    patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(document))


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("zk", None, "zk:2181"),
        ("zk", 2182, "zk:2182"),
        ("one:1, two ,three:3", 2182, "one:1,two:2182,three:3"),
    ],
)
def test_hosts_without_a_port_get_the_connections_port(host: str, port: int | None, expected: str) -> None:
    assert hosts(host, port) == expected


def test_login_and_password_are_the_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(monkeypatch, "switchyard_kafka_sasl", conn_type="switchyard_kafka", login="ops", password="secret")

    assert ServiceAccountHook().get_conn() == SecurityProfile("PLAIN", "ops", "secret")
    assert ServiceAccountHook().test_connection()[0]


@pytest.mark.parametrize("extra", [{"principal": "User:ops"}, {"principal": ""}, {}])
def test_a_service_account_may_name_its_principal(monkeypatch: pytest.MonkeyPatch, extra: dict[str, str]) -> None:
    account = {"conn_type": "switchyard_kafka", "login": "ops", "password": "secret"}
    set_connection(monkeypatch, "switchyard_kafka_sasl", **account, extra=extra)

    assert ServiceAccountHook().get_conn().principal == extra.get("principal", "")


def test_a_service_account_without_a_password_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(monkeypatch, "switchyard_kafka_sasl", conn_type="switchyard_kafka", login="ops")

    with pytest.raises(SecurityProfileError, match="switchyard_kafka_sasl"):
        ServiceAccountHook().get_conn()
    assert not ServiceAccountHook().test_connection()[0]


def test_brokers_that_do_not_answer_fail_the_connection_test(monkeypatch: pytest.MonkeyPatch) -> None:
    set_connection(monkeypatch, "switchyard_kafka_none", conn_type="switchyard_kafka", host="127.0.0.1:1")

    works, words = ServiceAccountHook("switchyard_kafka_none").test_connection()

    assert not works
    assert "127.0.0.1:1" in words


def test_a_scheduled_run_does_not_create_a_mistyped_root(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[EnvironmentSettings] = []

    def connect(connection: EnvironmentSettings, _by: str, **_options: Any) -> SimpleNamespace:
        opened.append(connection)
        return SimpleNamespace(profiles={})

    monkeypatch.setattr("ha_core.operations.engine.environment.connect", connect)
    set_connection(
        monkeypatch, "switchyard_zookeeper", conn_type="switchyard_zookeeper", host="zk", extra={"root": "/swichtyard"}
    )

    SwitchyardHook().get_conn()

    assert [(settings.zookeeper, settings.root, settings.create_root) for settings in opened] == [
        ("zk:2181", "/swichtyard", False)
    ]


def test_every_connection_type_has_its_hook() -> None:
    types = {one["connection-type"]: one["hook-class-name"] for one in get_provider_info()["connection-types"]}

    for hook in (SwitchyardHook, ServiceAccountHook):
        assert types[hook.conn_type] == f"{hook.__module__}.{hook.__name__}"
