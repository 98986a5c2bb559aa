"""The platform as a process: uvicorn around the app."""

from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from ha_core.model.access import on_loopback
from ha_core.platform.errors import InvalidError
from ha_core.platform.platform import Platform
from ha_core.platform.serving.app import Enforcement, make_app
from ha_core.platform.serving.connections import MAX_CONNECTIONS, PromptProtocol
from ha_core.platform.serving.tokens import CallerTokens

IDLE_S = 75


def require_safe(host: str, encrypted: bool, plain: bool) -> None:
    """:raises InvalidError: tokens and password keys would cross the network unencrypted."""
    if not (encrypted or plain or on_loopback(host)):
        raise InvalidError(
            f"{host} is reached over the network, and tokens would be readable there: give --certificate and --key, "
            "or --plain if a proxy in front of it speaks TLS"
        )


def settings_of(app: FastAPI, host: str, port: int, certificate: Path | None, key: Path | None) -> dict[str, Any]:
    """uvicorn's settings. uvicorn checks no token before it has read a complete request."""
    return {
        "app": app,
        "host": host,
        "port": port,
        "ssl_certfile": certificate,
        "ssl_keyfile": key,
        "http": PromptProtocol,
        "ws": "none",
        "limit_concurrency": MAX_CONNECTIONS,
        "timeout_keep_alive": IDLE_S,
        "server_header": False,
        "log_level": "warning",
        "access_log": False,
    }


def serve(
    registry: Platform,
    tokens: CallerTokens,
    host: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
    publishes_quotas: bool,
    enforcement: Enforcement | None = None,
) -> None:
    """Serve until the process is ended."""
    uvicorn.run(**settings_of(make_app(registry, tokens, publishes_quotas, enforcement), host, port, certificate, key))
