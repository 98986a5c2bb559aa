"""Queries to live gateways, in parallel; each gateway answers for itself."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from ha_core.model import GatewayRecord
from ha_core.model.gateway import by_gateway
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError

TOKEN_VARIABLE = "SWITCHYARD_GATEWAY_TOKEN_FILE"
TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class GatewayReply:
    """One gateway's answer, or the reason why there is none."""

    gateway: str
    answer: Mapping[str, Any] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class GatewayText:
    """The metrics page of one gateway."""

    gateway: str
    body: str


def ask_metrics(environment: Environment, timeout_s: float = TIMEOUT_S) -> list[GatewayText]:
    """Metrics pages of the live gateways that answer; a gateway with workers answers for all of them.

    :raises RefusedError: the token cannot be read.
    """
    gateways = [workers[0] for workers in by_gateway(environment.store.gateways()).values() if workers[0].http]
    with httpx.Client(headers=_login(), timeout=timeout_s, trust_env=False, follow_redirects=False) as client:

        def page(record: GatewayRecord) -> GatewayText | None:
            try:
                status, body = _page(client, f"{record.http}/metrics", {})
            except (httpx.HTTPError, _TooLongError):
                return None
            return GatewayText(record.gateway, body.decode(errors="replace")) if status == httpx.codes.OK else None

        return [text for text in environment.pool.map(page, gateways) if text is not None]


def ask_gateways(
    environment: Environment,
    path: str,
    fields: Mapping[str, str],
    only: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> list[GatewayReply]:
    """Answers in order of gateway ids. A gateway with workers answers for all of them.

    :param only: the id of the only gateway to ask; None: all.
    :raises RefusedError: no such gateway lives, or the token cannot be read.
    """
    gateways = by_gateway(environment.store.gateways())
    workers_asked = [workers[0] for name, workers in gateways.items() if only in (None, name)]
    if not workers_asked:
        known = ", ".join(gateways) or "none"
        wanted = "No gateway lives" if only is None else f"Gateway {only} does not live"
        raise RefusedError(f"{wanted} (live: {known}). `switchyard status` shows them.")
    headers = _login()
    with httpx.Client(headers=headers, timeout=timeout_s, trust_env=False, follow_redirects=False) as client:
        return list(environment.pool.map(lambda record: _one(client, record, path, fields), workers_asked))


def _one(client: httpx.Client, record: GatewayRecord, path: str, fields: Mapping[str, str]) -> GatewayReply:
    if not record.http:
        return GatewayReply(record.gateway, error="it publishes no address for this")
    try:
        status, body = _page(client, f"{record.http}{path}", fields)
        found = httpx.Response(status, content=body).json()
    except _TooLongError:
        return GatewayReply(record.gateway, error=f"more than {MAX_ANSWER_BYTES >> 20} MiB; ask for less")
    except httpx.HTTPError as error:
        return GatewayReply(record.gateway, error=f"{record.http} does not answer: {error or type(error).__name__}")
    except ValueError:
        return GatewayReply(
            record.gateway, error=f"{record.http} answers something that is not JSON; is this a gateway?"
        )
    if not isinstance(found, dict):
        return GatewayReply(record.gateway, error=f"{record.http} answers JSON that is no object")
    if status == httpx.codes.OK:
        return GatewayReply(record.gateway, found)
    hint = f" ({TOKEN_VARIABLE} names the file with it)" if status == httpx.codes.UNAUTHORIZED else ""
    return GatewayReply(record.gateway, error=f"{found.get('error', status)}{hint}")


class _TooLongError(Exception):
    """An answer has more than `MAX_ANSWER_BYTES`."""


def _page(client: httpx.Client, url: str, fields: Mapping[str, str]) -> tuple[int, bytes]:
    """Status and body.

    :raises HTTPError: no answer.
    """
    with client.stream("GET", url, params=dict(fields)) as answer:
        body = bytearray()
        for part in answer.iter_bytes():
            body += part
            if len(body) > MAX_ANSWER_BYTES:
                raise _TooLongError
    return answer.status_code, bytes(body)


def _login() -> dict[str, str]:
    named = os.environ.get(TOKEN_VARIABLE)
    if not named:
        return {}
    try:
        token = Path(named).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise RefusedError(f"{TOKEN_VARIABLE}: {named}: {why}; give the path of a readable file") from None
    return {"Authorization": f"Bearer {token}"}
