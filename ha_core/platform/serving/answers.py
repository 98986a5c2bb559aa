"""Errors in one shape, `{"error": {"code", "message", "details"}}`, and a limit on the size of bodies."""

import json
import logging
from collections.abc import Callable, Collection
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ha_core.model.numeral import whole_number
from ha_core.model.shown import shown
from ha_core.platform.errors import (
    BusyError,
    DatabaseAwayError,
    NotPublishedError,
    NotThereError,
    PlatformError,
    SchemaError,
    StaleVersionError,
    StillUsedError,
)

MAX_BODY_BYTES = 1 << 20
STATUS: tuple[tuple[type[PlatformError], int], ...] = (
    (NotThereError, 404),
    (StaleVersionError, 409),
    (StillUsedError, 409),
    (BusyError, 503),
    (NotPublishedError, 503),
    (DatabaseAwayError, 503),
    (SchemaError, 503),
    (PlatformError, 422),
)
"""The first match applies."""
NO_TOKEN = "the token is missing or unknown: send Authorization: Bearer TOKEN"
_CODES = {401: "no_token", 403: "forbidden", 404: "not_there", 405: "method", 413: "too_long"}
_LOG = logging.getLogger(__name__)


def error(status: int, code: str, message: str, details: Any = None) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse(_shape(code, message, details), status, headers)


def _shape(code: str, message: str, details: Any = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "details": details or {}}}


def shape_errors(app: FastAPI) -> None:
    """All errors of `app` are answered in one shape."""

    def ours(_request: Request, failed: Exception) -> JSONResponse:
        assert isinstance(failed, PlatformError)
        status = next(status for kind, status in STATUS if isinstance(failed, kind))
        return error(status, failed.code, str(failed), failed.details)

    def invalid(_request: Request, failed: Exception) -> JSONResponse:
        # Without the given values, which may be passwords.
        assert isinstance(failed, RequestValidationError)
        found = [
            {"field": ".".join(map(str, one["loc"])), "problem": one["msg"].removeprefix("Value error, ")}
            for one in failed.errors()[:20]
        ]
        return error(422, "invalid", f"{found[0]['field']}: {found[0]['problem']}", {"problems": found})

    def http(_request: Request, failed: Exception) -> JSONResponse:
        assert isinstance(failed, HTTPException)
        if failed.status_code == 400:
            # A body that no parser accepts, such as nothing but brackets: it gets the status of other invalid bodies.
            return error(422, "invalid", "the body is no JSON")
        return error(failed.status_code, _CODES.get(failed.status_code, "http"), str(failed.detail))

    def defect(request: Request, failed: Exception) -> JSONResponse:
        _LOG.error("%s %s failed: %s", request.method, shown(request.url.path), type(failed).__name__)
        return error(500, "defect", "a defect of the platform: see its log")

    app.add_exception_handler(PlatformError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, defect)


class BodyLimit:
    """Refuses a body that is, or becomes, too long, before it is parsed."""

    def __init__(self, app: ASGIApp, max_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._most = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        body = bytearray()
        too_long = whole_number(length.decode("latin-1"), self._most) is None
        while not too_long:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            too_long = len(body) > self._most
            if not message.get("more_body", False):
                break
        if too_long:
            await _refuse(send, 413, "too_long", f"a body of more than {self._most} bytes: send less at once")
            return
        given = False

        async def given_once() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, given_once, send)


class TypedBody:
    """Refuses a body that does not say what it is.

    A browser sends such a body for any page of another site, with the cookie by which Airflow knows the user, and
    FastAPI before 0.132, as with Airflow 3.1, reads it as JSON. It asks the server first before it sends one that is
    called JSON, and a form's type is no JSON to FastAPI.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        if has_body and not headers.get(b"content-type", b"").strip():
            await _refuse(send, 415, "media_type", "send Content-Type: application/json")
            return
        await self._app(scope, receive, send)


class TokenFirst:
    """Checks the token before the body is read: otherwise any caller could have a megabyte parsed."""

    def __init__(self, app: ASGIApp, known: Callable[[str], bool], open_paths: Collection[str]) -> None:
        """:param known: whether a token is known."""
        self._app, self._known, self._open_paths = app, known, open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._open_paths:
            header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            scheme, _, token = header.partition(" ")
            if scheme.lower() != "bearer" or not self._known(token.strip()):
                await _refuse(send, 401, _CODES[401], NO_TOKEN)
                return
        await self._app(scope, receive, send)


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    text = json.dumps(_shape(code, message)).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
