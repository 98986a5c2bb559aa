"""Admins of registered clusters, looks at one that was away, and the last questions to an origin that is dying."""

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError
from ha_core.kafka.facts import Adopted
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Cluster, Mirror, MoveRequest, View
from ha_core.model.evidence import AdoptedGroup
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError
from ha_core.plan.absence.decision import Log, LogHeld, Presence, Unsettled, out_of_service
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.similar import did_you_mean
from ha_core.plan.mirror.mirrored_topics import NoSuchMirrorError, named

PROBE_S = 3.0
DYING_S = 2.0
"""Time limit for the last questions to an origin that is taken for dead: clients wait."""
T = TypeVar("T")


def admin_of(environment: Environment, name: str) -> Admin:
    """The admin of a registered cluster.

    :raises RefusedError: it is not registered (any more), or the executor does not have its security profile.
    """
    found = environment.store.read(Cluster, name)
    if found is None:
        raise RefusedError(f"Cluster {name} is not registered any more. Register it again: `switchyard clusters add`.")
    return environment.admin(found[0])


def mirrors_by_route(view: View, topics: Collection[str], target: str) -> dict[tuple[str, str], list[Mirror]]:
    """(source, target) → its mirrors of `topics`, which are names or patterns; none: all.

    :raises RefusedError: a topic has no mirror, or several and no `target` is given; a cluster is not registered.
    """
    try:
        mirrors = named(view.mirrors.values(), topics, target)
    except NoSuchMirrorError as error:
        raise RefusedError(str(error)) from error
    for mirror in mirrors:
        for side in (mirror.source, mirror.target):
            if side not in view.clusters:
                raise RefusedError(f"Cluster {side} of the mirror {mirror.key} is not registered. Add it.")
    return grouped(((mirror.source, mirror.target), mirror) for mirror in mirrors)


def described(admin: Admin, names: Collection[str], timeout_s: float | None = None) -> dict[str, TopicDescription]:
    """The topics of a move in one of its clusters. :raises StepFailedError: one of them is gone."""
    topics = admin.topics(names, offsets=False, timeout_s=timeout_s)
    missing = sorted(set(names) - topics.keys())
    if missing:
        raise StepFailedError(
            f"Topic {missing[0]} does not exist in cluster {admin.cluster.name} any more. Plan the move again."
        )
    return topics


def answering(environment: Environment, clusters: Iterable[Cluster]) -> dict[str, Admin]:
    """Those of `clusters` that are in service and can be asked; all are probed at once."""

    def probe(cluster: Cluster) -> Admin | None:
        if cluster.masked is not None:
            return None
        try:
            admin = environment.admin(cluster)
        except RefusedError as error:
            environment.say(str(error))
            return None
        return admin if admin.probe(timeout_s=PROBE_S).reachable else None

    return {admin.cluster.name: admin for admin in environment.pool.map(probe, clusters) if admin is not None}


def no_such_cluster(name: str, known: Iterable[str]) -> RefusedError:
    """The error for a `name` that is none of the `known` clusters."""
    names = sorted(known)
    meant = did_you_mean(name, names)
    return RefusedError(f"There is no cluster {name!r} (known: {', '.join(names) or 'none'}). Check the name.{meant}")


def origin_of(environment: Environment, request: MoveRequest) -> Admin | None:
    """The admin of the origin; None for a forced move whose origin does not answer, or did not within `SILENT_S`:
    clients wait, and an origin that accepts requests without answering costs seconds at every probe."""
    admin, name = admin_of(environment, request.origin), request.origin
    if request.mode == "planned":
        return admin
    if environment.is_silent(name):
        return None
    probe = admin.probe(timeout_s=PROBE_S)
    if not probe.answers:
        environment.note_silent(name)
    return admin if probe.reachable else None


def ask_dying(environment: Environment, origin: Admin | None, ask: Callable[[Admin], T]) -> T | None:
    """The answer of an origin that is taken for dead, if it still gives one.

    An origin that hangs uses up all the time that it is given, so it is not asked a second time.

    :param ask: has to return within `DYING_S`.
    """
    if origin is None or environment.is_silent(origin.cluster.name):
        return None
    try:
        return ask(origin)
    except ClusterUnreachableError:
        environment.note_silent(origin.cluster.name)
    except KafkaAdminError as error:
        environment.say(f"{origin.cluster.name} is done without: {error}")
    return None


def in_target(group: str, adopted: AdoptedGroup) -> Adopted:
    """The joined members, as the target's coordinator knows them."""
    return Adopted(group, adopted.generation, adopted.members)


def in_origin(group: str, adopted: AdoptedGroup) -> Adopted:
    """The original members, as the origin's coordinator knows them."""
    return Adopted(group, adopted.origin_generation, {member: member for member in adopted.members})


LOOK_S = 30.0


def presence(environment: Environment, view: View, name: str, *, behind_mask: bool = False) -> Presence:
    """:param behind_mask: ask the cluster even if it is masked.
    :raises RefusedError: the executor does not have its security profile.
    """
    if (out := out_of_service(view, name)) is not None and not (behind_mask and out.state == "masked"):
        return out
    probe = environment.admin(view.clusters[name]).probe(timeout_s=PROBE_S)
    return Presence(name, "back" if probe.reachable else "refuses" if probe.answers else "away", probe.error)


def logs_there(admin: Admin, partitions: Collection[Partition]) -> dict[Partition, Log]:
    """:raises KafkaAdminError: the cluster cannot be asked."""
    there = admin.topics({topic for topic, _ in partitions}, timeout_s=LOOK_S)
    return {key: _log(admin.cluster.name, there.get(key[0]), key[1]) for key in partitions}


def _log(cluster: str, described: TopicDescription | None, partition: int) -> Log:
    if described is None or partition >= described.partitions:
        return None
    ends = described.ends.get(partition)
    if ends is None:
        return Unsettled(f"no leader in {cluster} answers for it yet")
    if not ends.replicated:
        return Unsettled(f"its replicas in {cluster} have not caught up yet")
    return LogHeld(ends.start, ends.log_end, ends.last_stable)
