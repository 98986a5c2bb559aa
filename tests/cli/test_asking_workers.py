"""Commands on a gateway with workers that do not answer or disagree."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ha_core.metrics.http import HttpServer
from ha_core.model import GatewayRecord, Use, UserBindings
from ha_core.store.commits import StateChange, key_of
from ha_core.store.usage import Sighting
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, seeded, shown, use

SILENT = {"gw-1.0": "worker 0 does not answer"}


def explanation(gateway: str, cluster: str, by: str = "user", *exists_in: str) -> dict[str, Any]:
    leading = {"cluster": cluster, "by": by, "differs": False, "masked": None, "exists_in": exists_in}
    moved = {"state": "as it is", "operation": None, "extents": 0, "read_from": None}
    allowed = {"by": "off", "operations": ["READ"], "rules": []}
    asked = {"user": "alice", "instance": "", "kind": "topic", "name": "orders", "address": ""}
    return {"gateway": gateway, "revision": 1, **asked, "leading": leading, "moved": moved, "allowed": allowed}


def connection(
    user: str | None, software: str, cluster: str | None, idle_ms: int, address: str = "10.0.0.1"
) -> dict[str, Any]:
    named = {"user": user, "client_id": "app", "address": address, "software": software, "login": None}
    where = {"cluster": cluster, "clusters": [cluster] if cluster else [], "broker": None}
    return {**named, **where, "since": "2026-01-01T00:00:00Z", "idle_ms": idle_ms, "in_flight": 0}


ANSWERS: dict[str, Mapping[str, Any]] = {
    "/connections": {
        "total": 5,
        "connections": [
            connection("shop", "librdkafka/2.6", "east", idle_ms=10),
            connection("shop", "librdkafka/2.6", "west", idle_ms=40_000),
            connection(None, "switchyard/1", None, idle_ms=10),
            connection("shop", "librdkafka/2.6", "east", 10, "10.0.0.2"),
            connection("shop", "librdkafka/2.6", "east", 40_000, "10.0.0.3"),
        ],
        "unanswered": SILENT,
    },
    "/explain": explanation("gw-1.0", "east") | {"others": [explanation("gw-1.1", "west")]},
}
OF_BOB = explanation("gw-1.0", "east", "topic", "east") | {"others": [explanation("gw-1.1", "east", "default")]}


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    store = seeded()
    use(store, monkeypatch)
    pages = {
        path: (lambda asked, answer=answer: (200, OF_BOB if asked.fields.get("user") == "bob" else answer))
        for path, answer in ANSWERS.items()
    }
    server = HttpServer("127.0.0.1", 0, bytes, tuple, "", pages)
    record = GatewayRecord(id="gw-1.0", worker_of="gw-1", host="h", port=1, node_id=1)
    store.client().register_gateway(record.changed(http=f"http://127.0.0.1:{server.start()}"))
    yield store
    server.stop()


def test_an_unanswering_worker_is_named_beside_the_answers_of_the_others() -> None:
    assert document("connections")["unanswered"] == SILENT


def test_workers_that_disagree_are_shown_one_by_one() -> None:
    found = document("explain", "alice", "", "orders")
    assert not found["agree"]
    assert [one["gateway"] for one in found["explanations"]] == ["gw-1.0", "gw-1.1"]
    assert "gw-1.1" in shown("explain", "alice", "", "orders")


def test_gateways_that_route_to_one_cluster_for_different_reasons_agree() -> None:
    assert document("explain", "bob", "", "orders")["agree"]
    page = " ".join(shown("explain", "bob", "", "orders").split())
    assert "do not agree" not in page
    assert "all choose it, for different reasons: because the topic is there at gw-1.0" in page


def test_an_idle_connection_is_shown_apart_from_the_clusters_of_connections_in_use() -> None:
    rows = document("connections")["connections"]
    assert [(row["led_to"], row["idle_to"]) for row in rows][:3] == [(["east"], []), ([], ["west"]), ([], [])]


def test_a_client_id_in_use_at_two_addresses_is_shown_with_both() -> None:
    shared = [{"user": "shop", "client_id": "app", "addresses": ["10.0.0.1", "10.0.0.2"]}]

    assert document("connections")["shared_ids"] == shared
    page = " ".join(shown("connections").split())
    assert "shop+app is used from 2 places at once (10.0.0.1, 10.0.0.2)" in page


@pytest.mark.parametrize("bound", [True, False])
def test_status_notices_shared_and_changing_client_ids_of_users_with_bound_instances(
    bound: bool, store: MemoryStore
) -> None:
    # Given a user with one client id in use at two addresses, and with other ids that change at each start
    last = "2020-01-01T00:00:00Z"
    seen = [Use(instance=f"job-{number}", how="fetch", since=last, last=last) for number in range(6)]
    store.client().record_usage("shop", [Sighting("topic", "orders", use) for use in seen])
    instances = {"app": "east"} if bound else {}
    bindings = UserBindings(user="shop", cluster="east", instances=instances)
    store.commit(StateChange(change_id="bound", puts=(bindings,), expected={key_of(bindings): None}))
    # When an operator asks for the status
    said = [notice["text"] for notice in document("status")["notices"]]
    # Then notices name both if a binding goes by client ids
    assert [any(word in text for text in said) for word in ("client id app", "job-*")] == [bound, bound]


def test_connections_of_switchyards_software_are_counted_and_only_shown_on_request() -> None:
    page = shown("connections")
    assert "switchyard/1" not in page
    assert "1 connection of Switchyard's own software: --own shows them" in page
    assert "switchyard/1" in shown("connections", "--own")
