"""The platform of a stack, used by operators over its REST API."""

import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from confluent_kafka import KafkaError, Producer

from ha_core.kafka.admin import Admin
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import AuthenticationRefusedError
from ha_core.kafka.facts import TopicSpec
from ha_core.model import Cluster
from ha_core.tls.contexts import client_context
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsFiles
from stack.clients.confluent_settings import client_settings
from stack.harness import Stack
from tests.kit.running import bootstrap

PASSWORD = "secret-of-the-test"
SOON_S = 15.0
"""Timeout for fast steps on a busy machine; benchmarks measure their time."""


class RunningPlatform:
    """An operator's calls. Changes return when they are written, not when they are enforced."""

    def __init__(self, stack: Stack) -> None:
        assert stack.platform is not None
        self._stack = stack
        headers = {"Authorization": f"Bearer {stack.platform['operator_token']}"}
        trusted = True if stack.tls is None else client_context(TlsFiles(stack.tls["ca_file"]), ssl.SSLSocket)
        self._client = httpx.Client(
            base_url=stack.platform["url"], headers=headers, timeout=30, trust_env=False, verify=trusted
        )

    def create_user(self, name: str, password: str, **fields: Any) -> None:
        self.call("POST", "/v1/users", {"value": {"name": name, **fields}, "reason": "test"})
        self.set_password(name, password)

    def make_known(self, name: str) -> None:
        """Create a user with `PASSWORD`; returns when every gateway lets it in."""
        self.create_user(name, PASSWORD)
        soon(lambda: known_everywhere(self._stack, name), f"every gateway lets {name} in")

    def set_password(self, name: str, password: str) -> None:
        said = {"user": name, "password": password, "reason": "test", "iterations": 4096}
        self.call("POST", "/v1/passwords", said)

    def delete_user(self, name: str) -> None:
        self._delete(f"/v1/users/{name}")

    def grant(self, user: str, operation: str, name: str, resource_type: str = "topic", **fields: str) -> str:
        """Returns the rule's key."""
        value = {"principal": f"User:{user}", "resource_type": resource_type, "name": name, "operation": operation}
        made = self.call("POST", "/v1/rules", {"value": value | fields, "reason": "test"})
        return str(made["key"])

    def revoke(self, rule: str) -> None:
        self._delete(f"/v1/rules/{rule}")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None, **query: Any) -> Any:
        answer = self._client.request(method, path, json=body, params=query)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def status_of(self, method: str, path: str, body: dict[str, Any] | None = None) -> int:
        """Status of a call that may be refused."""
        return self._client.request(method, path, json=body).status_code

    def close(self) -> None:
        self._client.close()

    def _delete(self, path: str) -> None:
        version = self.call("GET", path)["version"]
        self.call("DELETE", path, version=version, reason="test")


def create_topic(stack: Stack, name: str) -> None:
    """At the brokers of east, with the gateways' account."""
    assert stack.service is not None
    account = SecurityProfile("PLAIN", stack.service["user"], stack.service["password"])
    with Admin(Cluster(name="east", bootstrap=bootstrap(stack, "east")), account) as admin:
        admin.create_topics([TopicSpec(name, 1, 1)])


def gateway_connection(
    stack: Stack, number: int, user: str, password: str, mechanism: str = "PLAIN"
) -> BlockingConnection:
    """A connection to one gateway by its number, from 0.

    :raises AuthenticationRefusedError: the login was refused.
    """
    host, port = stack.gateways[number]["bootstrap"].rsplit(":", 1)
    return BlockingConnection(
        f"gateway {number}", host, int(port), SecurityProfile(mechanism, user, password), Deadline.after(30)
    )


def logs_in(stack: Stack, number: int, user: str, password: str, mechanism: str = "PLAIN") -> bool:
    try:
        gateway_connection(stack, number, user, password, mechanism).close()
    except AuthenticationRefusedError:
        return False
    return True


def known_everywhere(stack: Stack, user: str, password: str = PASSWORD, mechanism: str = "PLAIN") -> bool:
    """Whether every gateway lets the user in with this password."""
    return all(logs_in(stack, number, user, password, mechanism) for number in range(len(stack.gateways)))


def written(bootstrap: str, user: str, topic: str) -> KafkaError | None:
    """The error of one record by a user of the platform."""
    account = client_settings(SecurityProfile("PLAIN", user, PASSWORD))
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "message.timeout.ms": 20_000, **account})
    became: list[KafkaError | None] = []
    producer.produce(topic, b"value", callback=lambda error, _: became.append(error))
    producer.flush(30)
    (error,) = became
    return error


def metric(stack: Stack, number: int, name: str, **labels: str) -> float:
    """A gateway's metric `switchyard_gateway_{name}`."""
    found = _sample(stack, number, name, labels)
    assert found is not None, f"gateway {number} has no {name} of {labels}"
    return found


def counted(stack: Stack, name: str, **labels: str) -> float:
    """Sum of `switchyard_gateway_{name}_total` over all gateways; a gateway without a count has no such line."""
    return sum(_sample(stack, number, f"{name}_total", labels) or 0.0 for number in range(len(stack.gateways)))


def _sample(stack: Stack, number: int, name: str, labels: Mapping[str, str]) -> float | None:
    text = httpx.get(f"{stack.gateways[number]['http']}/metrics", trust_env=False).text
    wanted = {f'{label}="{value}"' for label, value in labels.items()}
    for line in text.splitlines():
        found, _, value = line.rpartition(" ")
        name_of, _, said = found.partition("{")
        if name_of == f"switchyard_gateway_{name}" and wanted <= set(said.rstrip("}").split(",")):
            return float(value)
    return None


def soon(holds: Callable[[], bool], what: str, seconds: float = SOON_S) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"after {seconds:.0f} s still not: {what}"
        time.sleep(0.05)
