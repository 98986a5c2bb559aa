"""A gateway with rules answers like a broker with equal rules (StandardAuthorizer): every API, every version that both
support, and for each user allowed names, denied names, and both in one request.

The cases follow from the table of APIs: the first test finds an API without a request here.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from ha_core.kafka.admin import Admin
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import UnsupportedByClusterError
from ha_core.kafka.facts import TopicSpec
from ha_core.model import Cluster
from ha_core.model.access import AccessRule, access_rule
from ha_core.wire import APIS, ApiKey, Destination, ErrorCode
from ha_core.wire.apis import ROWS, Api
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from tests.rights.answers import alike
from tests.rights.requests import BROKER, MADE, cases

ASKING = tuple(row for row in ROWS if row.destination is not Destination.HIDDEN and not row.asks.free)
SETS = (("seen-1",), ("hidden-1",), ("seen-1", "hidden-1"), ("seen-none",), ("hidden-none",))
"""Names that exist, and names that do not, on both sides."""
VERDICTS = frozenset(
    {
        ApiKey.PRODUCE,  # producer ids that were never issued
        ApiKey.METADATA,  # a topic that was just created
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.CREATE_ACLS,  # rules are kept elsewhere
        ApiKey.DELETE_ACLS,
    }
)
"""For these a gateway itself checks the requests that it lets in."""


def test_every_api_that_requires_a_right_has_cases_here() -> None:
    assert {row.key for row in ASKING} == set(MADE)


def _rule(principal: str, resource: str, operation: str, effect: str = "allow", **more: str) -> dict[str, str]:
    said = {"principal": f"User:{principal}", "resource_type": resource, "operation": operation, "effect": effect}
    return said | ({} if resource == "cluster" else {"name": "*"}) | more


_KINDS = ("topic", "group", "transactional_id")
RULES: Mapping[str, list[dict[str, str]]] = {
    # Everything, except names that are denied.
    "admin": [
        *(_rule("admin", kind, "all") for kind in (*_KINDS, "cluster")),
        *(_rule("admin", kind, "all", "deny", name="hidden-", pattern="prefixed") for kind in _KINDS),
    ],
    # A prefix, and nothing of the cluster.
    "orders-app": [_rule("orders-app", kind, "all", name="seen-", pattern="prefixed") for kind in _KINDS],
    # Describe only, and from the right address only.
    "billing-app": [
        *(_rule("billing-app", kind, "describe", host="127.0.0.1") for kind in _KINDS),
        *(_rule("billing-app", kind, "read", host="10.9.9.9") for kind in ("topic", "group")),
        _rule("billing-app", "topic", "alter_configs", name="seen-1"),
        _rule("billing-app", "cluster", "describe"),
    ],
    # Writes and reads single resources by name; the group by a rule for all users.
    "payments-app": [
        _rule("payments-app", "topic", "write", name="seen-1"),
        _rule("payments-app", "topic", "read", name="hidden-1"),
        _rule("*", "group", "read", name="seen-1"),
        _rule("payments-app", "transactional_id", "write", name="seen-1"),
        _rule("payments-app", "cluster", "create"),
    ],
}


class Side:
    """A broker, or the gateway's node in front of it, for one user."""

    def __init__(self, host: str, port: int, user: str, password: str) -> None:
        security = SecurityProfile("PLAIN", user, password)
        self._place = host, port, security
        self._connection: BlockingConnection | None = None

    def ask(self, row: Api, version: int, message: dict[str, Any]) -> dict[str, Any] | str | None:
        """None: it does not support the version. A text: it has closed the connection."""
        if self._connection is None or self._connection.closed:
            host, port, security = self._place
            self._connection = BlockingConnection("here", host, port, security, Deadline.after(60))
        self._connection.until = Deadline.after(60)
        try:
            if self._connection.version(row.key, version) != version:
                return None
        except UnsupportedByClusterError:
            return None
        return self._connection.call(row.key, message, version)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class World:
    """Both sides, with equal users, rules, topics and groups."""

    def __init__(self, stack: Stack, node: tuple[str, int], node_id: int) -> None:
        self._broker = stack.clusters["east"]["bootstrap"].rsplit(":", 1)
        self._node, self.node_id, self._users = node, node_id, stack.users
        self._sides: dict[tuple[str, str], Side] = {}

    def side(self, which: str, user: str) -> Side:
        key = (which, user)
        if key not in self._sides:
            host, port = self._node if which == "gateway" else (self._broker[0], int(self._broker[1]))
            self._sides[key] = Side(host, port, user, self._users[user])
        return self._sides[key]

    def close(self) -> None:
        for side in self._sides.values():
            side.close()


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with ExitStack() as ending:
        stack = ending.enter_context(Stack.up({"east": request.param}, gateways=1, security="sasl"))
        assert stack.service is not None
        account = SecurityProfile("PLAIN", stack.service["user"], stack.service["password"])
        cluster = Cluster(name="east", bootstrap=stack.clusters["east"]["bootstrap"])
        with Admin(cluster, account, timeout_s=60) as admin:
            admin.create_topics([TopicSpec("seen-1", 1, 1), TopicSpec("hidden-1", 1, 1)])
            _rule_the_broker(admin)
        gateway = _with_rules(stack)
        ending.callback(gateway.wait)
        ending.callback(gateway.terminate)
        found = World(stack, *_node_of(stack, account))
        ending.callback(found.close)
        _use(found)
        yield found


def _rule_the_broker(admin: Admin) -> None:
    """An unknown principal gets a rule for each resource: without any rule, a resource is open to all in this stack."""
    nobody = [_rule("nobody", kind, "read") for kind in (*_KINDS, "cluster")]
    rules = [access_rule(said) for said in (*nobody, *(rule for rules in RULES.values() for rule in rules))]
    asking = admin.asking(60)
    answer = asking.call(None, ApiKey.CREATE_ACLS, {"creations": [_created(rule) for rule in rules]})
    assert [told["error_code"] for told in answer["results"]] == [0] * len(rules)


def _created(rule: AccessRule) -> dict[str, Any]:
    return {
        "resource_type": int(rule.resource_type),
        "resource_name": rule.name,
        "resource_pattern_type": int(rule.pattern),
        "principal": rule.principal,
        "host": rule.host,
        "operation": int(rule.operation),
        "permission_type": int(rule.effect),
    }


def _with_rules(stack: Stack) -> subprocess.Popen[bytes]:
    """The stack's gateway, restarted with a file of rules."""
    (gateway,) = stack.gateways
    (file,) = stack.dir.rglob("gateway.yaml")
    stack.kill("gateway/1")
    rules = file.with_name("rules.yaml")
    rules.write_text(yaml.safe_dump({"rules": [rule for rules in RULES.values() for rule in rules]}))
    config = yaml.safe_load(file.read_text()) | {"authorisation": {"rules_file": rules.name}}
    ruled = file.with_name("ruled.yaml")
    ruled.write_text(yaml.safe_dump(config))
    log = file.with_name("ruled.log").open("wb")
    running = subprocess.Popen([sys.executable, "-m", "gateway", "--config", str(ruled)], stdout=log, stderr=log)
    deadline = time.monotonic() + 90
    while True:
        try:
            if httpx.get(f"{gateway['http']}/readyz").status_code == 200:
                return running
        except httpx.TransportError:
            pass
        assert running.poll() is None, Path(log.name).read_text()
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _node_of(stack: Stack, account: SecurityProfile) -> tuple[tuple[str, int], int]:
    """The gateway's address for the broker: the leader of a topic, once it knows the cluster."""
    host, port = stack.gateways[0]["bootstrap"].rsplit(":", 1)
    user = SecurityProfile("PLAIN", "admin", stack.users["admin"])
    deadline = time.monotonic() + 60
    while True:
        connection = BlockingConnection("here", host, int(port), user, Deadline.after(30))
        answer = connection.call(ApiKey.METADATA, {"topics": [{"name": "seen-1"}]}, 8)
        connection.close()
        (topic,) = answer["topics"]
        leaders = [partition["leader_id"] for partition in topic["partitions"]]
        found = [b for b in answer["brokers"] if leaders == [b["node_id"]]]
        if found:
            return (found[0]["host"], found[0]["port"]), found[0]["node_id"]
        assert time.monotonic() < deadline, answer
        time.sleep(0.2)


def _use(world: World) -> None:
    """Create a group and a transactional id on each side."""
    direct = world.side("broker", "admin")
    for key in (ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_COMMIT, ApiKey.INIT_PRODUCER_ID):
        deadline = time.monotonic() + 60
        for case in cases(key, 3, (("seen-1",),)):
            if "hidden" in case.what:
                continue
            while "error_code': 0" not in repr(direct.ask(APIS[key], 3, case.message)):
                assert time.monotonic() < deadline
                time.sleep(0.2)


@pytest.mark.stack
@pytest.mark.long("gateway/model/rights.py", "ha_core/plan/access/rights.py", "ha_core/wire")
@pytest.mark.parametrize("row", ASKING, ids=lambda row: row.key.name)
def test_a_gateway_with_rules_answers_like_a_broker_with_equal_ones(world: World, row: Api) -> None:
    differing, compared = [], 0
    for user in RULES:
        for version in range(row.min_version, row.max_version + 1):
            for case in cases(row.key, version, SETS):
                # Given one request for both
                direct, through = _message(case.message, 1), _message(case.message, world.node_id)
                # When
                said = world.side("broker", user).ask(row, version, direct)
                if said is None:
                    continue
                heard = world.side("gateway", user).ask(row, version, through)
                # Then
                compared += 1
                if row.key is ApiKey.CONSUMER_GROUP_DESCRIBE and _is_off(said):
                    continue  # to all users, before it checks rights
                loose = row.key in VERDICTS
                expected, found = _said(said, 1, loose), _said(heard, world.node_id, loose)
                if expected != found:
                    differing.append(f"{user} v{version} {case.what}:\n  broker  {expected}\n  gateway {found}")

    assert not differing, "\n".join([f"{len(differing)} of {compared} differ", *differing[:12]])
    assert compared


def _is_off(said: Any) -> bool:
    return isinstance(said, dict) and {group["error_code"] for group in said["groups"]} == {
        ErrorCode.UNSUPPORTED_VERSION
    }


def _message(message: dict[str, Any], node_id: int) -> dict[str, Any]:
    if "resources" not in message:
        return message
    renamed = [
        resource | {"resource_name": str(node_id) if resource["resource_name"] == BROKER else resource["resource_name"]}
        for resource in message["resources"]
    ]
    return message | {"resources": renamed}


def _said(answer: Any, node_id: int, loose: bool) -> Any:
    if isinstance(answer, dict) and "results" in answer:
        for result in answer["results"]:
            if result.get("resource_type") == 4 and result["resource_name"] == str(node_id):
                result["resource_name"] = BROKER
    return alike(answer, loose)
