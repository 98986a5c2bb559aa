"""Clients and bytes of the gateways now, as they answer themselves."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.gateway_queries import GatewayText, ask_gateways, ask_metrics
from ha_core.plan.access.shared_ids import in_use

MAX_ROWS = 10_000
ASKED_S = 2.0
_BYTES = re.compile(r'^switchyard_gateway_bytes_total\{([^}]*side="client"[^}]*)\} ([0-9.e+]+)$', re.MULTILINE)
_CLUSTER_BYTES = re.compile(
    r'^switchyard_gateway_cluster_bytes_total\{cluster="([^"]+)",direction="(in|out)"\} ([0-9.e+]+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes in both directions since a gateway started, from its metrics page."""

    bytes_in: float
    """From clients, or to the brokers of a cluster."""
    bytes_out: float
    """To clients, or from the brokers of a cluster."""


@dataclass(frozen=True, slots=True)
class ClientTraffic:
    """Answers of gateways about their clients. A value that no gateway has answered is missing, and never zero.

    :ivar at_s: monotonic time of the look.
    :ivar clusters: cluster → number of clients that use it now; None: a gateway did not answer, so it is not known.
    :ivar gateways: gateway → number of its clients.
    :ivar counters: gateway → its counters.
    :ivar cluster_counters: gateway → cluster → its counters.
    """

    at_s: float
    clusters: Mapping[str, int] | None
    gateways: Mapping[str, int]
    counters: Mapping[str, Traffic]
    cluster_counters: Mapping[str, Mapping[str, Traffic]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrafficRates:
    """Bytes per second between two looks: (from clients, to clients).

    :ivar gateways: without those that were restarted meanwhile.
    :ivar clusters: over all gateways; empty if the counters of one of them are not known.
    """

    gateways: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    clusters: Mapping[str, tuple[float, float]] = field(default_factory=dict)


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
    counters = {text.gateway: counters_of_clusters(text.body) for text in texts}
    return ClientTraffic(at_s, counted if whole else None, of_gateway, counters_of(texts), counters)


def _client(row: Mapping[str, object]) -> tuple[object, ...]:
    """One client has several connections."""
    return row["user"], row["client_id"], row["address"]


def counters_of(texts: list[GatewayText]) -> dict[str, Traffic]:
    """Counters in the metrics pages that have both directions."""
    found = {}
    for text in texts:
        way = {
            "in" if 'direction="in"' in labels else "out": float(value) for labels, value in _BYTES.findall(text.body)
        }
        if way.keys() == {"in", "out"}:
            found[text.gateway] = Traffic(way["in"], way["out"])
    return found


def counters_of_clusters(body: str) -> dict[str, Traffic]:
    """Cluster → its counters, from a metrics page."""
    found: dict[str, dict[str, float]] = {}
    for cluster, direction, value in _CLUSTER_BYTES.findall(body):
        found.setdefault(cluster, {})[direction] = float(value)
    return {
        cluster: Traffic(counts["out"], counts["in"])
        for cluster, counts in found.items()
        if counts.keys() == {"in", "out"}
    }


def rates(before: ClientTraffic | None, now: ClientTraffic) -> TrafficRates:
    """Nothing that is not known is zero: see `TrafficRates`."""
    if before is None or now.at_s <= before.at_s:
        return TrafficRates()
    took_s = now.at_s - before.at_s
    gateways = dict(_grown(before.counters, now.counters, took_s))
    if now.clusters is None or gateways.keys() != now.gateways.keys():
        return TrafficRates(gateways)
    clusters: dict[str, tuple[float, float]] = {}
    for gateway, counters in now.cluster_counters.items():
        # A cluster's first client comes after the first look: it had no counter then.
        known = {name: Traffic(0, 0) for name in counters} | {**before.cluster_counters.get(gateway, {})}
        for cluster, (came, went) in _grown(known, counters, took_s):
            so_far = clusters.get(cluster, (0.0, 0.0))
            clusters[cluster] = (so_far[0] + came, so_far[1] + went)
    return TrafficRates(gateways, clusters)


def _grown(
    before: Mapping[str, Traffic], now: Mapping[str, Traffic], took_s: float
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Name → bytes per second; without counters that began again."""
    for name, after in now.items():
        if (first := before.get(name)) is None:
            continue
        came, went = after.bytes_in - first.bytes_in, after.bytes_out - first.bytes_out
        if came >= 0 and went >= 0:
            yield name, (came / took_s, went / took_s)
