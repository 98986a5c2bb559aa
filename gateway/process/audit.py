"""The audit log: one line of JSON for each refusal, failed login, and quota that starts or stops throttling, on its own
logger (`gateway.audit`).

Repeated events of a kind write one line a minute: the next line has the number of those since.
"""

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from gateway.model.rights import Denied

LOGGER = logging.getLogger("gateway.audit")

AGAIN_S = 60.0
"""Least time between two lines of a kind."""
MAX_KINDS = 10_000
MAX_LINES = 100
"""Most lines of all kinds in `PER_S`: names come from the wire, so kinds may be many."""
PER_S = 10.0

MAX_TEXT = 255
"""Most characters of a text that a client has sent."""

_Fields = tuple[tuple[str, str], ...]
"""The fields of a line. Lines with equal fields are of one kind."""


class AuditLog:
    def __init__(self) -> None:
        self._kinds: dict[_Fields, list[float]] = {}
        """Kind → [time of its last line, events since]."""
        self._began, self._lines, self._left_out = 0.0, 0, 0

    def denied(self, user: str, address: str, api: str, denied: Iterable[Denied], now: float) -> None:
        """:param now: seconds on the gateway's clock."""
        client = (("event", "denied"), ("user", user), ("address", address), ("api", api))
        for refusal in denied:
            target = (
                ("operation", refusal.operation),
                ("resource", refusal.resource),
                ("name", refusal.name[:MAX_TEXT]),
                *((("why", refusal.why[:MAX_TEXT]),) if refusal.why else ()),
            )
            self._note(client + target, now)

    def failed_login(self, address: str, cause: str, why: str, now: float) -> None:
        """:param why: names the user where one was claimed; never a password or a token."""
        fields = (("event", "login"), ("address", address), ("cause", cause), ("why", why[:MAX_TEXT]))
        self._note(fields, now)

    def throttled(self, quota: str, cause: str, bound: float, begins: bool, now: float) -> None:
        """:param quota: its scope, in words. :param cause: the limit that was reached."""
        event = "throttled" if begins else "throttled_no_more"
        self._note((("event", event), ("quota", quota[:MAX_TEXT]), ("cause", cause), ("limit", f"{bound:g}")), now)

    def _note(self, fields: _Fields, now: float) -> None:
        kind = self._kinds.get(fields)
        if kind is not None and now - kind[0] < AGAIN_S:
            kind[1] += 1
        elif not self._room(now):
            self._left_out += 1
        else:
            since = int(kind[1]) if kind is not None else 0
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.clear()
            self._kinds[fields] = [now, 0]
            self._write(fields, since)

    def _room(self, now: float) -> bool:
        if now - self._began >= PER_S:
            self._began, self._lines = now, 0
        self._lines += 1
        return self._lines <= MAX_LINES

    def _write(self, fields: _Fields, since: int) -> None:
        line: dict[str, object] = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **dict(fields)}
        if since:
            line["again"] = since
        if self._left_out:
            line["left_out"], self._left_out = self._left_out, 0
        LOGGER.info("%s", json.dumps(line, ensure_ascii=True))
