"""The gateway's metrics for Prometheus: `switchyard_gateway_…`.

No metric has a label that clients choose (user, topic, client id): each new value would stay in memory.
"""

import math
from collections.abc import Iterable

from prometheus_client.core import Metric

from gateway.config import Config
from gateway.model.counts import PREFIX, api_label
from gateway.process.gateway import Gateway
from gateway.process.state_metrics import state_metrics
from gateway.runtime import clock
from ha_core.metrics.http import Families, render
from ha_core.metrics.process import ProcessMetrics
from ha_core.tls.expiry import CertificateExpiry
from ha_core.wire.tls_files import Tls

_families = Families(PREFIX)
_gauge, _counter = _families.gauge, _families.counter


def certificates(config: Config) -> dict[str, Tls | None]:
    """Use → the side of TLS whose certificate the gateway shows there."""
    sides: dict[str, Tls | None] = {f"profile {name}": profile.tls for name, profile in config.profiles.items()}
    sides["zookeeper"] = config.zookeeper.security.tls
    sides["clients"] = None if config.tls is None else config.tls.peers
    return sides


class GatewayMetrics:
    """Metrics of one gateway; several gateways may live in one process."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._expiry = CertificateExpiry(certificates(gateway.config))
        self._process = ProcessMetrics()

    def render(self) -> bytes:
        return render(self, self._process)

    def collect(self) -> Iterable[Metric]:
        gateway = self._gateway
        left_s = max(0.0, gateway.lease.valid_until - clock.now())
        unreadable = len(gateway.unreadable)
        yield _gauge("ready", "Whether clients should be sent here.", not gateway.unready)
        yield _gauge("revision", "Revision of the state that every session follows.", gateway.snapshot.view.revision)
        yield _gauge("lease_left_seconds", "Time for which produce is forwarded without a new confirmation.", left_s)
        yield _gauge("unreadable_documents", "Documents in ZooKeeper that this version cannot read.", unreadable)

        text = "Operations whose fence or whose drain holds clients back at this gateway."
        since = gateway.fenced_since.values()
        yield _gauge("fences", text, len(since))
        if since:
            text = "Time for which this gateway has seen the oldest of these fences."
            yield _gauge("fence_oldest_seconds", text, max(0.0, clock.now() - min(since)))

        text = "When a certificate of this gateway ends, or the first of those in its file, by its use."
        yield _gauge("certificate_expires_timestamp_seconds", text, self._expiry.found(), "use")

        clients = gateway.clients
        yield _gauge("connections", "Open client connections.", len(clients.open))
        yield _counter("connections_accepted", "Client connections accepted.", clients.accepted)
        yield _counter(
            "connections_turned_away", "Client connections above a limit.", dict(clients.turned_away), "limit"
        )
        yield _counter("connections_ended", "Client connections ended.", dict(clients.ended), "cause")

        text = "Clients' connections to brokers, beyond the first of each client."
        yield _gauge("further_broker_connections", text, clients.brokers.further)
        text = "Clients' connections to brokers that were not opened for want of file descriptors."
        yield _counter("further_broker_connections_refused", text, clients.brokers.refused)

        text = "Connections that began with another protocol than the listener's."
        yield _counter("foreign_connections", text, dict(gateway.counts.foreign), "listener", "protocol")
        yield _counter("tls_handshakes", "TLS handshakes with clients.", dict(gateway.counts.handshakes), "outcome")

        login_rate_limiter, logins = gateway.shared.authentication.login_rate_limiter, gateway.logins
        yield _counter(
            "logins_braked", "Logins refused unchecked: too many of their address failed.", login_rate_limiter.unchecked
        )
        yield _gauge("logins_waiting", "Logins that wait for verification.", logins.waiting)

        snapshot, recorder = gateway.snapshot, gateway.members.recorder
        clusters = snapshot.view.clusters
        reachable = {name: snapshot.topology.reachable(name) for name in clusters}
        masked = {name: cluster.masked is not None for name, cluster in clusters.items()}
        dials: dict[tuple[str, str], int] = {}
        hang_ups: dict[tuple[str, str], int] = {}
        for name, upstream in dict(gateway.upstream.clusters).items():
            dialling = upstream.dialling
            dials |= {(name, "connected"): dialling.begun - dialling.failed, (name, "failed"): dialling.failed}
            hang_ups |= {(name, api_label(key)): count for key, count in dict(upstream.hang_ups).items()}
        recorded = {name: ended_s for name, ended_s in dict(recorder.looked_at).items() if name in clusters}
        yield _gauge("cluster_reachable", "Whether the cluster answers.", reachable, "cluster")
        answering = {name: snapshot.topology.clusters[name] for name, answers in reachable.items() if answers}
        text = "Brokers that have replicas and are not among the live brokers, of a cluster that answers."
        away = {name: len(cluster.brokers_away) for name, cluster in answering.items()}
        yield _gauge("cluster_brokers_away", text, away, "cluster")
        text = "Partitions without a leader, of a cluster that answers, when all of it was last looked at."
        leaderless = {name: cluster.leaderless for name, cluster in answering.items()}
        yield _gauge("cluster_leaderless_partitions", text, leaderless, "cluster")
        waiting = {name: gateway.upstream.waiting[name] for name in clusters}
        yield _gauge(
            "questions_waiting", "Questions of clients that a cluster has not answered yet.", waiting, "cluster"
        )
        text = "Clients' questions that were not sent: too many waited for the cluster, or of their user."
        yield _counter("questions_turned_away", text, dict(gateway.upstream.turned_away), "cluster")
        text = "Age of the metadata that is served of a cluster that does not answer."
        ages = {name: max(0.0, clock.wall() - at) for name, at in gateway.upstream.out_of_date.items()}
        yield _gauge("cluster_out_of_date_seconds", text, ages, "cluster")
        yield _gauge("cluster_masked", "Whether operators have masked the cluster.", masked, "cluster")
        yield _counter("upstream_dials", "Connections dialled.", dials, "cluster", "outcome")
        text = "Questions of the gateway on which a broker closed the connection."
        yield _counter("upstream_hang_ups", text, hang_ups, "cluster", "api")
        yield _gauge("records_facts", "Whether this gateway records facts of clusters.", recorder.running)
        text = "When this gateway has last recorded facts of a cluster."
        yield _gauge("facts_recorded_timestamp_seconds", text, recorded, "cluster")

        rights, rules = snapshot.rights, gateway.rules
        yield _gauge("access_rules", "Rules that are in force.", 0 if rights is None else len(rights))
        text = "Whether the rules in force are older than the rules file."
        yield _gauge("access_rules_unreadable", text, rules is not None and bool(rules.unreadable))

        yield from self._platform()

        following = gateway.settings
        text = "Whether the discovery settings in force are older than their file."
        yield _gauge("settings_unreadable", text, following is not None and bool(following.unreadable))

        text = "Bytes held of incomplete requests."
        yield _gauge("held_request_bytes", text, gateway.shared.held.bytes)
        text = "Bytes of answers that clients have not taken."
        yield _gauge("untaken_answer_bytes", text, clients.kept_bytes)

        counts = gateway.counts
        requests = {(api_label(key), outcome): count for (key, outcome), count in dict(counts.requests).items()}
        data = {
            ("client", "in"): counts.bytes_from_clients,
            ("client", "out"): counts.bytes_to_clients,
            ("broker", "in"): counts.bytes_from_brokers,
            ("broker", "out"): counts.bytes_to_brokers,
        }
        yield _counter("requests", "Requests of clients.", requests, "api", "outcome")
        yield _counter("refusals", "Partitions and requests refused.", dict(counts.refusals), "cause")
        yield _counter("bytes", "Bytes of the data path.", data, "side", "direction")
        by_cluster = {
            (name, direction): count
            for name, found in dict(counts.broker_bytes).items()
            for direction, count in (("in", found.received), ("out", found.sent))
        }
        text = "Bytes of clients' connections to the brokers of a cluster."
        yield _counter("cluster_bytes", text, by_cluster, "cluster", "direction")
        text = "Bytes of records read from copies of mirrors instead of their source, by the cluster of the copy."
        yield _counter("mirror_fetch_bytes", text, dict(counts.mirror_fetch_bytes), "cluster")
        text = (
            "Bytes read from copies in the zone of the gateway and of the client: they crossed no line between zones."
        )
        yield _counter("mirror_fetch_near_bytes", text, dict(counts.mirror_fetch_near_bytes), "cluster")
        meters = gateway.meters
        used = {kind.label: tally.amount for kind, tally in meters.used.items()}
        text = "Bytes, and percents of a second of the gateway's time, that were charged to a quota."
        yield _gauge("quotas", "Quotas that are in force.", 0 if snapshot.quotas is None else len(snapshot.quotas))
        yield _gauge("quotas_unreadable", "Quotas whose newest value is not in force.", len(gateway.quotas.unreadable))
        yield _gauge("quotas_throttled", "Users, topics and instances that wait for a quota.", gateway.quotas.throttled)
        yield _counter("quota_used", text, used, "cause")
        yield _counter("throttled_requests", "Requests after which a client waits.", dict(counts.throttled), "cause")
        text = "Time for which no request was read from clients, because of quotas."
        yield _counter("throttled_seconds", text, dict(counts.throttled_s), "cause")
        text = "Requests for metadata, coordinators and producer ids that were answered later, by limit."
        yield _counter("discovery_delayed", text, dict(counts.discovery_delayed), "limit")
        text = "Total time for which these were held."
        yield _counter("discovery_delayed_seconds", text, counts.discovery_delayed_s)
        yield from counts.composed.collect()
        yield from counts.latencies.collect(PREFIX)
        yield from gateway.loop_lag.collect(PREFIX)
        yield from state_metrics(recorder)

    def _platform(self) -> Iterable[Metric]:
        """By cache: `users`, `rules`, `settings`."""
        following = self._gateway.platform
        states = [] if following is None else following.states()
        served = [state for state in states if state.commit_us is not None]
        committed = {state.name: (state.commit_us or 0) / 1e6 for state in served}
        text = "Time of the change up to which the platform's content is in force."
        yield _gauge("platform_commit_timestamp_seconds", text, committed, "cache")
        text = "Time since the content in force was all that the platform had."
        ages = {state.name: math.inf if state.age_s is None else state.age_s for state in served}
        yield _gauge("platform_age_seconds", text, ages, "cache")
        text = "Whether the platform, or the other gateways' state, cannot be read at the moment."
        yield _gauge("platform_unreadable", text, {state.name: bool(state.error) for state in states}, "cache")
        yield _gauge("platform_entries", "Entries in force.", {state.name: state.rows for state in states}, "cache")
        members = {state.name: state.members for state in states}
        yield _gauge("platform_members", "Gateways that take part in a cache.", members, "cache")
        text = "Gateways that lag and are not waited for."
        yield _gauge("platform_left_out", text, {state.name: len(state.left_out) for state in states}, "cache")
        text = "Whether the content in force would be lost by a restart."
        yield _gauge("platform_not_kept", text, {state.name: bool(state.kept_error) for state in states}, "cache")
        text = "Complete rereads of the platform."
        yield _counter("platform_reloads", text, {state.name: state.reloads for state in states}, "cache")
        text = "Users and rules that this version cannot read: they allow nothing."
        yield _gauge("platform_unreadable_entries", text, 0 if following is None else following.unreadable)
