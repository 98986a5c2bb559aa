"""The check for clusters that were dead at a cut and answer again: their extents are closed at their true ends."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Cluster, Extent, Topic
from ha_core.operations.engine.cluster_admins import logs_there, presence
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.report import Report
from ha_core.operations.engine.single import write_maps
from ha_core.operations.proposal.requests import chosen_by, require_named
from ha_core.plan.absence.decision import Unsettled
from ha_core.plan.absence.returned import Return, confirmed, look_at, read_again, unconfirmed
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.migration.aging import locked_topics


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of one check."""

    returns: tuple[Return, ...] = ()
    away: Mapping[str, str] = field(default_factory=dict)
    """Cluster → why its extents could not be looked at."""
    put_off: tuple[str, ...] = ()
    """Texts about partitions that the next check has to look at."""
    reports: tuple[Report, ...] = ()
    newly_found: tuple[Return, ...] = ()
    """The `unaccepted` ones that no earlier check has seen."""

    def to_json(self) -> dict[str, Any]:
        return {
            "result": self.unaccepted[0].outcome if self.unaccepted else "succeeded",
            "returned": [
                {**one._asdict(), "beyond": one.beyond, "missing": one.missing, "above": one.above}
                for one in self.returns
            ],
            "away": dict(self.away),
            "put_off": list(self.put_off),
            "operations": [report.to_json() for report in self.reports],
        }

    @property
    def unaccepted(self) -> tuple[Return, ...]:
        """Findings that wait for an operator, losses first."""
        return tuple(one for outcome in ("less", "more") for one in self.returns if one.outcome == outcome)


def check_origins(
    environment: Environment,
    topics: Collection[str] = (),
    *,
    accept_loss: bool = False,
    serve_skipped: bool = False,
    dry_run: bool = False,
    reason: str = "the cluster answers again",
) -> Returned:
    """Look at every cluster that was dead at a cut; close its extents if it answers. Safe to repeat.

    :param topics: names or patterns; none: all.
    :param accept_loss: the operator accepts the loss of records that a cluster has lost.
    :param serve_skipped: readers get records that they were to skip.
    :raises RefusedError: a decision of the operator without its topics.
    """
    if accept_loss or serve_skipped:
        require_named(topics)
    view = environment.store.load()
    wanted = [one for one in unconfirmed(view) if chosen_by(topics, one[0])]
    chosen = [topic for name, topic in view.topics.items() if serve_skipped and chosen_by(topics, name)]
    skipped = sorted(
        {(topic.name, extent.cluster) for topic in chosen for _, extent in topic.all_extents() if extent.ignored}
    )
    origins = {extent.cluster for _, _, extent in wanted}
    origins |= {cluster for _, cluster in skipped}
    present = [*environment.pool.map(partial(presence, environment, view), sorted(origins))]
    reachable = [one.cluster for one in present if one.permits("return")]
    away = {one.cluster: one.words for one in present if one.cluster not in reachable}
    looks: list[tuple[Return, Extent]] = []
    put_off: list[str] = []
    for name in reachable:
        here = [one for one in wanted if one[2].cluster == name]
        try:
            looks += _look(environment, view.clusters[name], here, accept_loss, put_off) if here else ()
        except KafkaAdminError as error:
            away[name] = str(error)
    # Readers must not wait for a cluster that is away.
    served = grouped((name, cluster) for name, cluster in skipped if cluster in reachable)
    returns = tuple(look for look, _ in looks)
    newly_found = tuple(look for look, extent in looks if look.open and extent.found_end != look.found_end)
    reports = () if dry_run else _write(environment, returns, served, reason, put_off)
    return Returned(returns, away, tuple(put_off), reports, newly_found)


def _look(
    environment: Environment,
    cluster: Cluster,
    wanted: Collection[tuple[str, int, Extent]],
    accept_loss: bool,
    put_off: list[str],
) -> list[tuple[Return, Extent]]:
    logs = logs_there(environment.admin(cluster), [(topic, partition) for topic, partition, _ in wanted])
    found = []
    for topic, partition, extent in wanted:
        log = logs[topic, partition]
        if isinstance(log, Unsettled):
            put_off.append(f"{topic}-{partition}: {log.why}")
        else:
            one = look_at(topic, partition, extent, None if log is None else log.end, accept_loss)
            found.append((one, extent))
    return found


def _write(
    environment: Environment,
    found: Iterable[Return],
    served: Mapping[str, Collection[str]],
    reason: str,
    put_off: list[str],
) -> tuple[Report, ...]:
    returns: dict[str, list[Return]] = {**{name: [] for name in served}, **grouped((one.topic, one) for one in found)}
    for name, operation in locked_topics(environment.store.locks()).items():
        if returns.pop(name, None) is not None:
            put_off.append(f"{name}: operation {operation} works on it")

    def changed(topic: Topic) -> Topic:
        partitions = dict(topic.partitions)
        for one in returns[topic.name]:
            # Another process may have closed the extent meanwhile.
            if any(e.cluster == one.cluster and e.known_end == one.known_end for e in partitions[one.partition]):
                partitions[one.partition] = confirmed(partitions[one.partition], one)
        after = topic.model_copy(update={"partitions": partitions})
        for cluster in served.get(topic.name, ()):
            after = read_again(after, cluster)
        return after

    details = {name: _detail(several, served.get(name, ())) for name, several in returns.items()}
    return write_maps(environment, "return", reason, returns, changed, "topics", details, put_off)


def _detail(returns: Collection[Return], served: Collection[str]) -> dict[str, Any]:
    """Detail for the history: partition → outcome, known and found end."""
    partitions = {str(one.partition): [one.outcome, one.known_end, one.found_end] for one in returns}
    return {**({"partitions": partitions} if returns else {}), **({"read_again": list(served)} if served else {})}
