"""Giving up a cluster that is gone for good: its losses are counted, then its extents leave the maps."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.model import KnownTopic, Lock, Topic, View
from ha_core.model.operation import SingleKind
from ha_core.operations.clusters.inventory import commits
from ha_core.operations.clusters.registered import references, running_operations
from ha_core.operations.engine.cluster_admins import answering, no_such_cluster, presence
from ha_core.operations.engine.creating import QUIET_S, interrupted, way_out
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.engine.report import Report
from ha_core.operations.engine.single import write_maps
from ha_core.operations.proposal.requests import chosen_by, is_pattern, parse_topic
from ha_core.operations.running import engine
from ha_core.plan.absence.decision import Presence
from ha_core.plan.absence.given_up import Loss, UnreadGroup, losses, still_written, unread, without
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.migration.aging import locked_topics, worked_on

MAX_GROUPS = 1_000
"""Groups of one topic in the history; each is counted over all its partitions."""
NOT_SERVED = "If it comes back, these records are not served any more"


@dataclass(frozen=True, slots=True)
class GivingUp:
    """The losses with a cluster, and the documents that still name it."""

    cluster: str
    answers: bool = False
    losses: tuple[Loss, ...] = ()
    unread: tuple[UnreadGroup, ...] = ()
    unasked: tuple[str, ...] = ()
    """Clusters whose groups are unknown."""
    pointing: tuple[str, ...] = ()
    """Documents that name the cluster once these extents are gone."""
    default: bool = False
    """It serves identities without a binding."""
    never_moved: tuple[str, ...] = ()
    """Topics that were last seen there and have no map: they stay lost with it. Only if no topic was named."""
    before: Mapping[str, Topic] = field(default_factory=dict)
    """The maps that were judged."""
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Topic → named partitions, if not the whole topic was named."""

    @property
    def known(self) -> int:
        """Offsets that are known to be lost."""
        return sum(loss.known for loss in self.losses)

    @property
    def most_lost(self) -> int:
        return sum(loss.most_lost for loss in self.losses)

    @property
    def keys(self) -> frozenset[tuple[str, int, int]]:
        """(topic, partition, start) of every extent to give up."""
        return frozenset((loss.topic, loss.partition, loss.start) for loss in self.losses)

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "answers": self.answers,
            "known_lost": self.known,
            "most_lost": self.most_lost,
            "extents": [
                {
                    **loss.to_json(),
                    "known_lost": loss.known,
                    "most_lost": loss.most_lost,
                    "exact": loss.known_end is None,
                }
                for loss in self.losses
            ],
            "groups": [group.to_json() for group in self.unread],
            "unasked": list(self.unasked),
            "pointing": list(self.pointing),
            "default": self.default,
            "never_moved": list(self.never_moved),
        }


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The result."""

    plan: GivingUp
    reports: tuple[Report, ...] = ()
    put_off: tuple[str, ...] = ()
    """Texts about topics that a repetition has to give up."""

    @property
    def succeeded(self) -> bool:
        return not self.put_off and all(report.result == "succeeded" for report in self.reports)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.plan.to_json(),
            "result": "succeeded" if self.succeeded else "failed",
            "changed": bool(self.reports),
            "put_off": list(self.put_off),
            "operations": [report.to_json() for report in self.reports],
        }


def plan_giving_up(
    environment: Environment, cluster: str, topics: Collection[str] = (), *, force: bool = False
) -> GivingUp:
    """Compute the loss if all that `cluster` holds of `topics` is given up.

    :param topics: names, partitions (`orders:0,4-7`) or patterns; none: all.
    :param force: even if the cluster answers.
    :raises RefusedError: unknown cluster or topics, it is still written, it answers, or an operation works on a topic.
    """
    view = environment.store.load()
    registered = view.clusters.get(cluster)
    if registered is None:
        raise no_such_cluster(cluster, view.clusters)
    mapped = {name: topic for name, topic in sorted(view.topics.items()) if topic.mapped}
    never_moved = sorted(environment.store.known_names(KnownTopic, cluster) - mapped.keys() - view.copy_logs)
    parsed = [parse_topic(entry) if ":" in entry else (entry.strip(), None) for entry in topics]
    names = _named(mapped, cluster, [name for name, _ in parsed], never_moved)
    whole = {name for name in names if any(p is None and chosen_by([entry], name) for entry, p in parsed)}
    only = {name: p for name, p in parsed if p is not None and name not in whole}
    chosen = {name: topic for name, topic in mapped.items() if name in names and cluster in topic.clusters}
    locked = locked_topics(environment.store.locks())
    for name, topic in chosen.items():
        if (operation := worked_on(topic, locked)) == Lock.UNREADABLE:
            way = Lock.unreadable(f"topic:{name}").way_out_if_unreadable
            raise unchanged(f"An operation works on topic {name} whose lock this version cannot read. {way}")
        if operation:
            raise unchanged(f"Operation {operation} works on topic {name}. {way_out(operation)}")
    if damaged := [name for name, topic in chosen.items() if not topic.sound]:
        raise unchanged(
            f"The maps of {listed(damaged)} are damaged, so their records in {cluster} are not "
            "known. Restore their documents, or name the other topics."
        )
    if written := [name for name, topic in chosen.items() if still_written(topic, cluster, only.get(name, ()))]:
        raise unchanged(
            f"{amount(len(written), 'topic', 'is', 'are')} still written in {cluster}: {listed(written)}. Move them "
            f"first (`switchyard migrate-from-fault {written[0]} --from {cluster} --to … --unread wait|skip "
            "--reason …`), or name only topics, or partitions (`TOPIC:0,4-7`), that were moved."
        )
    after = {name: without(topic, cluster, only.get(name, ())) for name, topic in chosen.items()}
    plan = GivingUp(
        cluster,
        pointing=references(replace(view, topics={**view.topics, **after}), cluster),
        default=registered.default,
        never_moved=() if topics else tuple(never_moved),
        before=chosen,
        partitions=only,
    )
    if not chosen:
        return plan
    up, answers = _answering(environment, view, cluster, force)
    committed = commits(environment, view, chosen, up)
    lost, left_unread = list[Loss](), list[UnreadGroup]()
    for name, topic in chosen.items():
        some, commits_here = only.get(name, ()), {p: committed.of.get((name, p), ()) for p in topic.partitions}
        lost += losses(topic, cluster, some)
        left_unread += unread(topic, cluster, commits_here, some)
    return replace(plan, answers=answers, losses=tuple(lost), unread=tuple(left_unread), unasked=committed.unasked)


def give_up(environment: Environment, plan: GivingUp, reason: str) -> GivenUp:
    """Carry `plan` out, in batches of revisions. Safe to break off: a new plan has the rest."""
    cluster, put_off = plan.cluster, list[str]()

    def changed(topic: Topic) -> Topic | None:
        some = plan.partitions.get(topic.name, ())
        return without(topic, cluster, some) if topic == plan.before[topic.name] else None

    reports = write_maps(
        environment, "give-up", reason, plan.before, changed, "given_up", _evidence(plan), put_off, cluster=cluster
    )
    return GivenUp(plan, reports, tuple(put_off))


def require_reason(cluster: str, reason: str) -> None:
    """:raises RefusedError: there is no reason for the history."""
    if not reason.strip():
        raise RefusedError(f"Giving up cluster {cluster} needs a reason. Give --reason.")


def end_interrupted(environment: Environment, kind: SingleKind = "give-up") -> None:
    """End interrupted operations of a `kind`; batches that their process had not begun are left."""
    for operation in running_operations(environment):
        if operation.kind == kind and interrupted(environment, operation, QUIET_S):
            environment.say(f"operation {operation.id} of {operation.by} was interrupted; ending it")
            engine.resume(environment, operation.id)


def _named(
    mapped: Collection[str], cluster: str, entries: Collection[str], never_moved: Collection[str]
) -> Collection[str]:
    """The mapped topics that the entries name; without entries all of them."""
    names: set[str] = set()
    for entry in (one.strip() for one in entries):
        matching = {name for name in mapped if chosen_by([entry], name)}
        if not matching and entry in never_moved:
            raise unchanged(
                f"Topic {entry} was never moved out of {cluster}. Move it first: "
                f"`switchyard migrate-from-fault {entry} --from {cluster} --to … --unread wait|skip --reason …`."
            )
        if not matching:
            what = "Pattern" if is_pattern(entry) else "Topic"
            raise unchanged(f"{what} {entry!r} is no topic that was ever moved. Check the name.")
        names |= matching
    return names if entries else mapped


def _answering(environment: Environment, view: View, cluster: str, force: bool) -> tuple[dict[str, Admin], bool]:
    """The clusters that can be asked, and whether `cluster` answers. A mask hides other clusters, but not this one.

    :raises RefusedError: the cluster answers, and `force` is not set.
    """
    try:
        found = presence(environment, view, cluster, behind_mask=True)
    except RefusedError as error:
        if not force:
            raise
        found = Presence(cluster, "away", str(error))
    if not found.permits("give-up", force):
        raise unchanged(
            f"{cluster} answers, so its records can still be read: "
            f"`switchyard origins check` serves them. Give --force to give it up all the same. {NOT_SERVED}."
        )
    up = answering(environment, (other for name, other in sorted(view.clusters.items()) if name != cluster))
    own = {cluster: environment.admin(view.clusters[cluster])} if found.state == "back" else {}
    return up | own, found.answers


def _evidence(plan: GivingUp) -> dict[str, dict[str, Any]]:
    """Topic → detail for the history: every extent, and partitions and offsets that each group loses."""
    found: dict[str, dict[str, Any]] = {
        name: {"known_lost": 0, "most_lost": 0, "extents": [], "groups": {}} for name in plan.before
    }
    for loss in plan.losses:
        entry = found[loss.topic]
        entry["known_lost"] += loss.known
        entry["most_lost"] += loss.most_lost
        entry["extents"].append([loss.partition, loss.writer_epoch, loss.start, loss.end, loss.known_end])
    for group in plan.unread:
        groups: dict[str, tuple[int, int, int]] = found[group.topic]["groups"]
        if group.group in groups or len(groups) < MAX_GROUPS:
            partitions, known, most_lost = groups.get(group.group, (0, 0, 0))
            groups[group.group] = (partitions + 1, known + group.known, most_lost + group.most_lost)
    return found
