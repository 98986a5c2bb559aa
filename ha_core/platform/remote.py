"""A gateway's source: one kind, read from the platform over HTTP."""

from collections.abc import Callable
from typing import Any, TypeVar

import httpx

from ha_core.datacache.core.source import Changes, Row
from ha_core.platform.errors import PlatformAwayError

TIMEOUT_S = 10.0
Parsed = TypeVar("Parsed")
MAX_ANSWER_BYTES = 256 << 20


class HttpSource:
    """:raises PlatformAwayError: from all methods, if the platform does not answer correctly."""

    def __init__(self, client: httpx.Client, kind: str) -> None:
        """:param client: from `client_of`."""
        self._client = client
        self._kind = kind

    def changes(self, after_us: int, limit: int) -> Changes:
        return self._asked(f"changes/{self._kind}", {"after_us": after_us, "limit": limit}, _changes)

    def digest(self, through_us: int) -> str | None:
        return self._asked(f"digest/{self._kind}", {"through_us": through_us}, _digest)

    def _asked(self, path: str, params: dict[str, int], parse: Callable[[Any], Parsed]) -> Parsed:
        status, body = answered(self._client, "GET", path, params=params)
        if status != httpx.codes.OK:
            raise unexpected(self._client, path, status)
        return parsed(self._client, body, parse)


def answered(client: httpx.Client, method: str, path: str, **said: Any) -> tuple[int, bytes]:
    """Status and body of a gateway's call.

    :raises PlatformAwayError: no answer, or one that is too long.
    """
    where = f"the platform at {client.base_url}"
    try:
        with client.stream(method, f"v1/gateway/{path}", **said) as answer:
            body = bytearray()
            for part in answer.iter_bytes():
                body += part
                if len(body) > MAX_ANSWER_BYTES:
                    raise PlatformAwayError(f"{where} answers with more than {MAX_ANSWER_BYTES} bytes: ask for less")
    except httpx.HTTPError as error:
        raise PlatformAwayError(f"{where} does not answer: {type(error).__name__}") from None
    return answer.status_code, bytes(body)


def unexpected(client: httpx.Client, path: str, status: int) -> PlatformAwayError:
    return PlatformAwayError(
        f"the platform at {client.base_url} answers {status} to {path}: see its log, and the token"
    )


def parsed(client: httpx.Client, body: bytes, parse: Callable[[Any], Parsed]) -> Parsed:
    """:raises PlatformAwayError: the body is not as expected."""
    try:
        return parse(httpx.Response(200, content=body).json())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        where = f"the platform at {client.base_url}"
        raise PlatformAwayError(f"{where} answers in an unexpected form: {type(error).__name__}") from None


def client_of(url: str, token: str, verify: Any = True) -> httpx.Client:
    """:param verify: httpx's parameter: an SSL context for a private CA."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, verify=verify, trust_env=False)


def _changes(body: Any) -> Changes:
    rows = tuple(Row(_text(key), _number(changed_us), _value(value)) for key, changed_us, value in body["rows"])
    times = (body["through_us"], body["exact_from_us"], body["deletions_from_us"])
    return Changes(rows, *map(_number, times))


def _digest(body: Any) -> str | None:
    return None if body["digest"] is None else _text(body["digest"])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def _value(value: Any) -> dict[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise TypeError(value)
    return value
