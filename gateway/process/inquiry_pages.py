"""Pages for operators of a running gateway, over HTTP: the connected clients, and how a client's requests are routed.

Both name users and addresses, so they need a loopback connection, or the token of `http.token_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from hmac import compare_digest
from typing import Final

from gateway.config import Http
from gateway.process.connected import FILTERS, MAX_ROWS, selected
from gateway.process.gateway import Gateway
from ha_core.metrics.http import Asked, JsonPage
from ha_core.model.access import address, on_loopback
from ha_core.model.numeral import whole_number
from ha_core.plan.routing.explaining import RESOURCES, Kind, explain

DEFAULT_ROWS: Final = 1_000
_Answer = tuple[int, object]


def pages(gateway: Gateway, http: Http) -> Mapping[str, JsonPage]:
    """Path → page."""
    return {
        "/connections": _guarded(http, partial(_connections, gateway)),
        "/explain": _guarded(http, partial(_explanation, gateway)),
    }


def _guarded(http: Http, page: JsonPage) -> JsonPage:
    def guarded(request: Asked) -> _Answer:
        if http.token is None:
            if http.on_loopback and request.host and not on_loopback(request.host):
                # DNS rebinding: a browser on this machine shows a page of a site whose name now resolves to loopback.
                return 403, {"error": f"Host {request.host[:50]!r}: ask for this gateway by a loopback address"}
            if http.on_loopback:
                return page(request)
            return 403, {"error": f"http.host={http.host} is no loopback address: set http.token_file to be answered"}
        if not compare_digest(request.token.encode(), http.token):
            return 401, {"error": "show the token of http.token_file: Authorization: Bearer TOKEN"}
        return page(request)

    return guarded


def _connections(gateway: Gateway, request: Asked) -> _Answer:
    wanted = dict(request.fields)
    limit_text = wanted.pop("limit", str(DEFAULT_ROWS))
    limit = whole_number(limit_text, MAX_ROWS)
    if not limit:
        return 400, {"error": f"limit={limit_text[:20]!r}: give a number from 1 to {MAX_ROWS}"}
    if unknown := sorted(wanted.keys() - set(FILTERS)):
        return 400, {"error": f"{unknown[0][:40]!r}: no such field; there are limit, {', '.join(FILTERS)}"}
    rows, total = selected(list(gateway.clients.open), wanted, limit)
    return 200, {"gateway": gateway.config.id, "total": total, "connections": [asdict(row) for row in rows]}


def _explanation(gateway: Gateway, request: Asked) -> _Answer:
    fields = {"user": "", "instance": "", "address": "", **request.fields}
    named = [kind for kind in RESOURCES if fields.get(kind)]
    if len(named) != 1 or fields.keys() - {"user", "instance", "address", *RESOURCES} or not fields["user"]:
        return 400, {"error": "give user, topic or group (one of them), and, if you like, instance and address"}
    kind: Kind = named[0]
    try:
        host = address(fields["address"]) if fields["address"] else ""
    except ValueError:
        return 400, {"error": f"address={fields['address'][:50]!r}: no IP address"}
    snapshot = gateway.snapshot
    identity = snapshot.view.identify(fields["user"], fields["instance"])
    existing, rights = snapshot.topology.existing, snapshot.rights
    explanation = explain(snapshot.view, identity, kind, fields[kind], rights, host, existing, snapshot.zone)
    return 200, {"gateway": gateway.config.id, **asdict(explanation)}
