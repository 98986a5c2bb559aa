"""Clients and bytes of the gateways now, as they answer themselves."""

import re
from collections.abc import Mapping

from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.gateway_queries import GatewayText, ask_gateways, ask_metrics
from ha_core.operations.overview.picture import ClientTraffic, GatewayTraffic
from ha_core.plan.access.shared_ids import in_use

MAX_ROWS = 10_000
ASKED_S = 2.0
_BYTES = re.compile(r'^switchyard_gateway_bytes_total\{([^}]*side="client"[^}]*)\} ([0-9.e+]+)$', re.MULTILINE)


def traffic(environment: Environment) -> ClientTraffic:
    at_s = environment.monotonic()
    try:
        replies = ask_gateways(environment, "/connections", {"limit": str(MAX_ROWS)}, timeout_s=ASKED_S)
        texts = ask_metrics(environment, timeout_s=ASKED_S)
    except RefusedError:  # no gateway lives, or its token cannot be read
        return ClientTraffic(at_s, None, {}, {})
    whole = all(reply.answer is not None and not reply.answer.get("unanswered") for reply in replies)
    using: dict[str, set[tuple[object, ...]]] = {}
    of_gateway: dict[str, int] = {}
    for reply in replies:
        if reply.answer is None:
            continue
        rows = reply.answer["connections"]
        whole = whole and reply.answer["total"] <= len(rows)
        clients = [row for row in rows if not str(row.get("software") or "").startswith("switchyard/")]
        of_gateway[reply.gateway] = len({_client(row) for row in clients})
        for row in clients:
            if in_use(row):
                for cluster in row["clusters"] or ([row["cluster"]] if row["cluster"] else []):
                    using.setdefault(cluster, set()).add(_client(row))
    counted = {cluster: len(found) for cluster, found in using.items()}
    return ClientTraffic(at_s, counted if whole else None, of_gateway, counters_of(texts))


def _client(row: Mapping[str, object]) -> tuple[object, ...]:
    """One client has several connections."""
    return row["user"], row["client_id"], row["address"]


def counters_of(texts: list[GatewayText]) -> dict[str, GatewayTraffic]:
    """Counters in the metrics pages that have both directions."""
    found = {}
    for text in texts:
        way = {
            "in" if 'direction="in"' in labels else "out": float(value) for labels, value in _BYTES.findall(text.body)
        }
        if way.keys() == {"in", "out"}:
            found[text.gateway] = GatewayTraffic(way["in"], way["out"])
    return found


def rates(before: ClientTraffic | None, now: ClientTraffic) -> dict[str, tuple[float, float]]:
    """Gateway → bytes per second from and to its clients. A gateway that was restarted meanwhile is left out."""
    if before is None or now.at_s <= before.at_s:
        return {}
    took_s = now.at_s - before.at_s
    found = {}
    for gateway, after in now.counters.items():
        first = before.counters.get(gateway)
        if first is None:
            continue
        came, went = after.bytes_in - first.bytes_in, after.bytes_out - first.bytes_out
        if came >= 0 and went >= 0:
            found[gateway] = (came / took_s, went / took_s)
    return found
