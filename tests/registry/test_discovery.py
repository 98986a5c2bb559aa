"""The discovery feed that gateways poll: addresses and settings, without parts that they know already."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

import httpx
import pytest
from fastapi.testclient import TestClient

from gateway.config.settings_file import TYPES, readable
from ha_core.platform.platform import Platform
from tests.registry.rest import GATEWAY, OPERATOR, client_with, failed, served

NOTHING = {"addresses": 0, "queued_requests": 0, "user_rate": 0, "address_rate": 0}
AT = "/v1/gateway/discovery"


def put(operator: TestClient, kind: str, **value: Any) -> dict[str, Any]:
    answer = operator.post(f"/v1/{kind}", json={"value": value, "reason": "a test"})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_the_first_poll_returns_all_parts_and_later_ones_the_changes(operator: TestClient, gateway: TestClient) -> None:
    # Given
    assert gateway.get(AT).json() == {"versions": NOTHING, "changed": {name: {} for name in NOTHING}}
    put(operator, "clusters", name="east", bootstrap="e-1:9092,e-2:9092")
    put(operator, "settings", type="user_rate", name="*", value=20)
    put(operator, "settings", type="user_rate", name="alice", value=200)
    # When a gateway starts
    first = gateway.get(AT).json()
    # Then
    assert first["changed"] == {
        "addresses": {"east": "e-1:9092,e-2:9092"},
        "user_rate": {"*": 20, "alice": 200},
        "address_rate": {},
        "queued_requests": {},
    }
    assert first["versions"].items() >= {"user_rate": 2, "address_rate": 0}.items()
    # And without changes a poll returns nothing
    again = gateway.get(AT, params=first["versions"]).json()
    assert again == {"versions": first["versions"], "changed": {}}
    # And it returns one change
    put(operator, "settings", type="queued_requests", name="east", value=5)
    later = gateway.get(AT, params=first["versions"]).json()
    assert later["changed"] == {"queued_requests": {"east": 5}}


def test_gateways_parse_the_feed(operator: TestClient, gateway: TestClient) -> None:
    put(operator, "settings", type="address_rate", name="10.0.0.7", value=3)
    found = gateway.get(AT).json()["changed"]
    assert readable({name: found[name] for name in TYPES}).address_rate == {"10.0.0.7": 3}


def test_a_deletion_raises_the_version(operator: TestClient, gateway: TestClient) -> None:
    made = put(operator, "clusters", name="east", bootstrap="e:9092")
    said = gateway.get("/v1/gateway/addresses").json()
    assert said["addresses"] == {"east": "e:9092"}
    assert gateway.get("/v1/gateway/addresses", params={"version": said["version"]}).json() == {
        "version": said["version"],
        "addresses": None,
    }
    operator.delete(f"/v1/clusters/{made['key']}", params={"version": 1, "reason": "gone"})
    gone = gateway.get("/v1/gateway/addresses", params={"version": said["version"]}).json()
    assert gone["addresses"] == {}
    assert gone["version"] > said["version"]


def test_more_clusters_than_a_page_holds_are_all_returned(
    opened: Platform, operator: TestClient, gateway: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ha_core.platform.serving.discovery.MAX_PAGE", 3)
    for n in range(8):
        put(operator, "clusters", name=f"c-{n}", bootstrap=f"h-{n}:9092")
    assert len(gateway.get("/v1/gateway/addresses").json()["addresses"]) == 8


@pytest.mark.parametrize(
    "query", ["speed=1", "user_rate=-1", "user_rate=x", "user_rate=1.5", "user_rate=%C2%B2", "addresses=" + "9" * 5000]
)
def test_an_unknown_part_and_an_invalid_version_are_refused(gateway: TestClient, query: str) -> None:
    assert failed(gateway.get(f"{AT}?{query}")) == (422, "invalid")


def test_only_gateways_poll(operator: TestClient, opened: Platform) -> None:
    for path in (AT, "/v1/gateway/addresses"):
        assert failed(operator.get(path)) == (403, "forbidden")
        assert failed(client_with(opened, None).get(path))[0] == 401


def test_a_version_of_thousands_of_zeros_is_the_first_one(gateway: TestClient) -> None:
    zeros = "0" * 5000

    assert gateway.get(f"{AT}?user_rate={zeros}").json() == gateway.get(f"{AT}?user_rate=0").json()


class Follower:
    """A discovery client that has only an address and a token: it keeps versions, and polls with them."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}{AT}"
        self.versions: dict[str, int] = {}
        self.known: dict[str, dict[str, Any]] = {}

    def poll(self) -> set[str]:
        """Polls once; returns the names of the parts that changed."""
        asked = Request(f"{self.url}?{urlencode(self.versions)}", headers={"Authorization": f"Bearer {GATEWAY}"})
        with build_opener(ProxyHandler({})).open(asked, timeout=20) as answer:
            said = json.load(answer)
        assert all(said["versions"][name] >= version for name, version in self.versions.items())
        self.versions = said["versions"]
        self.known |= said["changed"]
        return set(said["changed"])


def test_a_client_that_polls_over_http_follows_changes_and_deletions_across_a_restart(tmp_path: Path) -> None:
    # Given the service, an operator, and a third-party client that has polled once
    database = f"sqlite:///{tmp_path}/platform.db"
    with (
        served(database) as port,
        httpx.Client(trust_env=False, headers={"Authorization": f"Bearer {OPERATOR}"}) as ops,
    ):
        at = f"http://127.0.0.1:{port}/v1"

        def make(kind: str, **value: Any) -> dict[str, Any]:
            answer = ops.post(f"{at}/{kind}", json={"value": value, "reason": "a test"}).raise_for_status()
            made: dict[str, Any] = answer.json()
            return made

        follower = Follower(port)
        assert follower.poll() == set(NOTHING)
        assert follower.poll() == set()
        # When a cluster and settings are created, then each poll returns the changes since the last one
        make("clusters", name="east", bootstrap="e-1:9092,e-2:9092")
        rate = make("settings", type="user_rate", name="alice", value=200)
        assert follower.poll() == {"addresses", "user_rate"}
        make("settings", type="queued_requests", name="east", value=5)
        assert follower.poll() == {"queued_requests"}
        # And a deletion
        key, version = quote(rate["key"], safe=""), rate["version"]
        ops.delete(f"{at}/settings/{key}", params={"version": version, "reason": "gone"}).raise_for_status()
        before = dict(follower.versions)
        assert follower.poll() == {"user_rate"}
        assert follower.versions["user_rate"] > before["user_rate"]
    # When the service restarts, then versions continue, and no change is sent twice
    with served(database) as port:
        follower.url = f"http://127.0.0.1:{port}{AT}"
        assert follower.poll() == set()
        assert follower.known == {
            "addresses": {"east": "e-1:9092,e-2:9092"},
            "user_rate": {},
            "address_rate": {},
            "queued_requests": {"east": 5},
        }
        # And a new client gets as much
        fresh = Follower(port)
        fresh.poll()
        assert (fresh.versions, fresh.known) == (follower.versions, follower.known)
