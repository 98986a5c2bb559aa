"""What the command line makes of a gateway whose workers do not all answer, or do not say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ha_core.metrics.http import HttpServer
from ha_core.model import GatewayRecord
from tests.cli.invoking import document, seeded, shown, use

SILENT = {"gw-1.0": "worker 0 does not answer"}


def explanation(gateway: str, *exists_in: str) -> dict[str, Any]:
    leading = {"cluster": "east", "by": "user", "differs": False, "masked": None, "exists_in": exists_in}
    moved = {"state": "as it is", "operation": None, "extents": 0, "read_from": None}
    allowed = {"by": "off", "operations": ["READ"], "rules": []}
    asked = {"user": "alice", "instance": "", "kind": "topic", "name": "orders", "address": ""}
    return {"gateway": gateway, "revision": 1, **asked, "leading": leading, "moved": moved, "allowed": allowed}


ANSWERS: dict[str, Mapping[str, Any]] = {
    "/connections": {"total": 0, "connections": [], "unanswered": SILENT},
    "/explain": explanation("gw-1.0", "east") | {"others": [explanation("gw-1.1")]},
}


@pytest.fixture(autouse=True)
def _gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    store = seeded()
    use(store, monkeypatch)
    pages = {path: (lambda _, answer=answer: (200, answer)) for path, answer in ANSWERS.items()}
    server = HttpServer("127.0.0.1", 0, bytes, tuple, "", pages)
    record = GatewayRecord(id="gw-1.0", worker_of="gw-1", host="h", port=1, node_id=1)
    store.client().register_gateway(record.changed(http=f"http://127.0.0.1:{server.start()}"))
    yield
    server.stop()


def test_a_worker_that_does_not_answer_is_named_beside_what_the_others_say() -> None:
    assert document("connections")["unanswered"] == SILENT


def test_workers_that_do_not_agree_are_shown_one_by_one() -> None:
    found = document("explain", "alice", "", "orders")
    assert not found["agree"]
    assert [one["gateway"] for one in found["explanations"]] == ["gw-1.0", "gw-1.1"]
    assert "gw-1.1" in shown("explain", "alice", "", "orders")
