"""Clients of the REST API, with and without a network: an operator, a gateway, and one without a valid token."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi.testclient import TestClient

from ha_core.platform.platform import Platform
from ha_core.platform.serving import tokens
from ha_core.platform.serving.app import make_app
from ha_core.platform.serving.server import settings_of

OPERATOR, GATEWAY = "o" * 32, "g" * 32
KNOWN = f"operator till {OPERATOR}\n# a comment\n\ngateway gw-1 {GATEWAY}\n"


def client_with(registry: Platform, token: str | None) -> TestClient:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return TestClient(make_app(registry, tokens.parse(KNOWN, "here")), headers=headers, raise_server_exceptions=False)


@contextmanager
def served(url: str) -> Iterator[int]:
    """Serves a database on a loopback port."""
    with Platform.open(url) as registry, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(512)
        app = make_app(registry, tokens.parse(KNOWN, "here"))
        server = uvicorn.Server(uvicorn.Config(**settings_of(app, "127.0.0.1", 0, None, None)))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def failed(answer: httpx.Response) -> tuple[int, str]:
    """Status and code; all errors have one shape."""
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "details"}
    return answer.status_code, error["code"]
