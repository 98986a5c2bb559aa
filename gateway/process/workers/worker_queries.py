"""The parent's queries to its workers' own pages, on loopback, in parallel, each with a time-out."""

import http.client
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlencode

LOOPBACK = "127.0.0.1"
TIMEOUT_S = 2.0


class WorkerPage(NamedTuple):
    """:ivar start: the number of the worker's start.
    :ivar worker: its number in the gateway.
    """

    start: int
    worker: int
    port: int


class PageAnswer(NamedTuple):
    """:ivar status: 0: no answer, and `body` has the error."""

    page: WorkerPage
    status: int
    body: bytes


def ask(
    pages: Sequence[WorkerPage],
    path: str,
    fields: Mapping[str, str] = {},
    token: str = "",
    timeout_s: float = TIMEOUT_S,
) -> list[PageAnswer]:
    """In order of `pages`."""
    if not pages:
        return []
    target = f"{path}?{urlencode(fields)}" if fields else path
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with ThreadPoolExecutor(len(pages), "asking-worker") as pool:
        return list(pool.map(lambda page: _one(page, target, headers, timeout_s), pages))


def _one(page: WorkerPage, target: str, headers: Mapping[str, str], timeout_s: float) -> PageAnswer:
    line = http.client.HTTPConnection(LOOPBACK, page.port, timeout=timeout_s)
    try:
        line.request("GET", target, headers=dict(headers))
        answer = line.getresponse()
        return PageAnswer(page, answer.status, answer.read())
    except (OSError, http.client.HTTPException) as error:
        return PageAnswer(page, 0, f"{error or type(error).__name__}".encode())
    finally:
        line.close()
