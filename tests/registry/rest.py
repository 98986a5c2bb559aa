"""The REST API, called without a network: by an operator, a gateway, or nobody that is known."""

from __future__ import annotations

import httpx
from fastapi.testclient import TestClient

from ha_core.registry.registry import Registry
from ha_core.registry.serving import tokens
from ha_core.registry.serving.app import make_app

OPERATOR, GATEWAY = "o" * 32, "g" * 32
KNOWN = f"operator till {OPERATOR}\n# a comment\n\ngateway gw-1 {GATEWAY}\n"


def client_with(registry: Registry, token: str | None) -> TestClient:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return TestClient(make_app(registry, tokens.parse(KNOWN, "here")), headers=headers, raise_server_exceptions=False)


def failed(answer: httpx.Response) -> tuple[int, str]:
    """Status and code; every error has the one shape."""
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "details"}
    return answer.status_code, error["code"]
