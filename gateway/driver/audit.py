"""The audit: one line of JSON for each refusal, on a logger of its own (`gateway.audit`).

A client that asks again and again writes one line a minute: the next one says how often it was refused since.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from gateway.rights import Denied

LOGGER = logging.getLogger("gateway.audit")

AGAIN_S = 60.0
"""A line says all that has happened since the last one of its kind, this long ago at least."""
MAX_KINDS = 10_000
MAX_LINES = 100
"""In ten seconds, of all kinds: names come from the wire."""
PER_S = 10.0

_Kind = tuple[str, str, str, Denied]


class Audit:
    def __init__(self) -> None:
        self._kinds: dict[_Kind, list[float]] = {}
        """Kind → [when its last line was written, refusals since]."""
        self._began, self._lines, self._left_out = 0.0, 0, 0

    def denied(self, user: str, address: str, api: str, denied: Iterable[Denied], now: float) -> None:
        """:param now: seconds on the gateway's clock."""
        for one in denied:
            kind = (user, address, api, one)
            known = self._kinds.get(kind)
            if known is not None and now - known[0] < AGAIN_S:
                known[1] += 1
            elif not self._room(now):
                self._left_out += 1
            else:
                since = int(known[1]) if known is not None else 0
                if len(self._kinds) >= MAX_KINDS:
                    self._kinds.clear()
                self._kinds[kind] = [now, 0]
                self._write(kind, since)

    def _room(self, now: float) -> bool:
        if now - self._began >= PER_S:
            self._began, self._lines = now, 0
        self._lines += 1
        return self._lines <= MAX_LINES

    def _write(self, kind: _Kind, since: int) -> None:
        user, address, api, denied = kind
        line: dict[str, object] = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": "denied",
            "user": user,
            "address": address,
            "api": api,
            "operation": denied.operation,
            "resource": denied.resource,
            "name": denied.name[:255],
        }
        if since:
            line["again"] = since
        if self._left_out:
            line["left_out"], self._left_out = self._left_out, 0
        LOGGER.info("%s", json.dumps(line, ensure_ascii=True))
