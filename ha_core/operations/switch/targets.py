"""Before the fence: topics and live groups are made in the target, invisible to clients.

Identity maps lead everybody to the origin before anything is created, and go when none of it is left (`plan/pinning`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import ClusterUnreachableError, GroupNotStableError, KafkaAdminError, NotSettledError
from ha_core.kafka.facts import TopicSpec
from ha_core.model import MoveSet, Operation, Topic
from ha_core.model.operation import AdoptedGroup
from ha_core.operations.environment import Environment
from ha_core.operations.errors import MoveError, StepFailedError
from ha_core.operations.gateways import name_them, serves, wait_for_all
from ha_core.operations.journal import Journal
from ha_core.operations.last_seen import LastKnown
from ha_core.operations.revisions import Touched, in_batches
from ha_core.operations.sides import admin_of, asked, in_origin, in_target, origin_of
from ha_core.plan.move import Documents
from ha_core.plan.pinning import pin_change, pinned_map, to_pin, unpin_change


def prepare_targets(journal: Journal) -> None:
    """Create the topics that are missing in the target; which ones is remembered before the first is created."""
    environment = journal.environment
    request, moves = asked(journal.operation)
    target, origin = admin_of(environment, request.target), origin_of(environment, request)
    specs = _specs(environment, origin, request.origin, moves, len(target.probe().brokers))
    there = target.topics(moves.topics, offsets=False)
    # A dead origin may not say what a topic looks like; then it exists in the target, which does.
    known = {name: found.partitions for name, found in there.items()}
    pin(journal, {**known, **{spec.name: spec.partitions for spec in specs}})
    with journal.step("prepare") as seen:
        missing = [name for name in moves.topics if name not in there]
        created = tuple(dict.fromkeys([*journal.operation.move.created, *missing]))
        live = {gateway.id for gateway in environment.store.gateways()}
        gateways = tuple(sorted(live.union(journal.operation.move.gateways)))
        journal.note(state="running", created=created, gateways=gateways, unsettled=tuple(missing))
        try:
            made = target.create_topics(specs, still_ours=journal.still_ours)
        except (ClusterUnreachableError, NotSettledError):
            raise  # asked for, and made later, maybe; or made, and some broker does not know of it yet
        except KafkaAdminError:
            journal.note(unsettled=())
            raise
        if missing:
            journal.note(unsettled=())
        seen.update(created=list(made.created), existing=list(made.existing), notes=list(made.notes))
        for note in made.notes:
            environment.say(note)


def adopt_groups(journal: Journal) -> None:
    """Join the groups in the target on their live members' behalf, so that these need no rebalance.

    A group that is just rebalancing is not adopted: its members join once more after the cut.
    """
    request, moves = asked(journal.operation)
    if request.mode == "forced" or not moves.groups:
        return
    environment = journal.environment
    with journal.step("adopt") as seen:
        seen.update(_forget_stale(journal, moves.groups))
        adopted, left_out = adopt(environment, request.origin, request.target, moves.groups)
        journal.note(adopted=adopted)
        seen.update(adopted={name: len(one.members) for name, one in adopted.items()}, left_out=left_out)


def _forget_stale(journal: Journal, groups: Collection[str]) -> dict[str, int]:
    """What the groups committed in the target in an earlier stay, and have not in the origin: it would come alive.

    Before anybody joins there: a coordinator keeps the offsets of topics that members are subscribed to.
    """
    environment = journal.environment
    request, _ = asked(journal.operation)
    origin, target = admin_of(environment, request.origin), admin_of(environment, request.target)
    here, there = origin.group_offsets(groups), target.group_offsets(groups, stable=False)
    stale = {group: there[group].keys() - here[group].keys() for group in groups}
    kept = [
        key
        for group, partitions in stale.items()
        for key in target.delete_group_offsets(group, partitions, journal.still_ours)
    ]
    counts = {"stale_offsets": sum(map(len, stale.values())) - len(kept), "stale_offsets_kept": len(kept)}
    return {name: count for name, count in counts.items() if count}


def adopt(
    environment: Environment, origin_name: str, target_name: str, groups: Collection[str]
) -> tuple[dict[str, AdoptedGroup], dict[str, str]]:
    """Adopted groups, and the others with the reason. Groups without live members are in neither."""
    origin, target = admin_of(environment, origin_name), admin_of(environment, target_name)
    adopted: dict[str, AdoptedGroup] = {}
    left_out: dict[str, str] = {}
    for name, described in origin.describe_groups(groups).items():
        if not described.members:
            continue
        if described.protocol_type != "consumer":
            left_out[name] = f"it is of type {described.protocol_type}"
            continue
        try:
            generation = origin.group_generation(described)
            joined = target.adopt(described)
        except GroupNotStableError as error:
            left_out[name] = str(error)
            environment.say(f"group {name} is not adopted, its members will join once more: {error}")
            continue
        adopted[name] = AdoptedGroup(joined.generation, generation, joined.members)
    return adopted, left_out


def still_adopted(origin: Admin, target: Admin, groups: dict[str, AdoptedGroup]) -> dict[str, AdoptedGroup]:
    """Those whose members are alive, in the same generation, on both sides. Keeps them alive."""
    alive: dict[str, AdoptedGroup] = {}
    for name, one in groups.items():
        try:
            origin.heartbeat(in_origin(name, one))
            target.heartbeat(in_target(name, one))
        except KafkaAdminError:
            continue
        alive[name] = one
    return alive


def renew_adoption(journal: Journal, origin: Admin, target: Admin) -> None:
    """Adopt again what has rebalanced or expired since it was adopted; the evidence becomes what holds now."""
    request, moves = asked(journal.operation)
    adopted = journal.operation.move.adopted
    alive = still_adopted(origin, target, adopted)
    stale = [name for name in moves.groups if name not in alive]
    if not stale:
        return
    for name in stale:
        if name in adopted:
            target.leave(in_target(name, adopted[name]))
    again, _ = adopt(journal.environment, request.origin, request.target, stale)
    if {**alive, **again} != adopted:
        journal.note(adopted={**alive, **again})


def _specs(
    environment: Environment, origin: Admin | None, origin_name: str, moves: MoveSet, brokers: int
) -> list[TopicSpec]:
    if origin is not None:
        found = origin.topics(moves.topics, offsets=False)
        missing = sorted(set(moves.topics) - found.keys())
        if missing:
            raise StepFailedError(
                f"Topic {missing[0]} does not exist in {origin.cluster.name} any more. Plan the move again."
            )
        return [found[name].spec() for name in moves.topics]
    known = LastKnown.read(environment, origin_name, moves).specs()
    specs = []
    for name in moves.topics:
        stored = environment.store.read(Topic, name)
        if name in known:
            specs.append(known[name])
        elif stored is not None and stored[0].mapped:
            specs.append(TopicSpec(name, max(stored[0].partitions) + 1, max(1, brokers)))
    return specs


SERVED_S = 30.0
"""Longer than the session of a gateway that has stopped; no client waits meanwhile."""


def pin(journal: Journal, partitions: Mapping[str, int]) -> None:
    """Lead everybody to the origin, in topics that no map has led anywhere so far. May be repeated.

    Returns when every live gateway does so, also by maps that are older than the operation.

    :param partitions: topic → how many it has.
    :raises StepFailedError: a gateway does not follow in time.
    """
    environment = journal.environment
    request, _ = asked(journal.operation)
    with journal.step("pin") as seen:
        touched = Touched.read(journal)
        names = [name for name in to_pin(journal.operation, touched.view) if name in partitions]
        maps = [pinned_map(request.origin, name, partitions[name]) for name in names]
        for some in in_batches(maps, {}):
            documents = pin_change(journal.operation, touched.view, {one.name: partitions[one.name] for one in some})
            _commit(journal, touched, documents, "pin")
        revision = environment.store.confirm()
        seen.update(topics=len(names), revision=revision)
        behind = wait_for_all(environment, serves(revision), SERVED_S)
        if behind:
            raise StepFailedError(
                f"These gateways did not serve revision {revision} within {SERVED_S:g} s: {name_them(behind)}. Nothing "
                "was created yet: they would lead clients to the new copies. Look at these gateways, or stop them, "
                "then try again."
            )


def unpin(journal: Journal) -> None:
    """Take the identity maps back where the topic is in the origin only. May be repeated.

    The others stay: a map that says what was true all along harms nobody, and a copy without one is a second topic.
    So do those of topics that were asked for without an answer, by a process that stands still, or of a cluster that
    was too slow: they may be made yet.
    """
    environment = journal.environment
    request, _ = asked(journal.operation)
    pinned = journal.operation.move.pinned
    if not pinned:
        return
    before = environment.monotonic()
    try:
        left = admin_of(environment, request.target).topics(pinned, offsets=False)
    except (KafkaAdminError, MoveError) as error:
        text = f"{request.target} does not say which of the topics it still has, so maps to {request.origin} stay"
        environment.say(f"{text}: {error}")
        journal.append("unpin", "note", detail={"left": f"{text}: {error}"})
        return
    touched = Touched.read(journal)
    kept = {*left, *journal.operation.move.unsettled}
    alone = [name for name in pinned if name not in kept]
    maps = [topic for name in alone if (topic := touched.view.topics.get(name)) is not None]
    for some in in_batches(maps, {}):
        documents = unpin_change(journal.operation, touched.view, [topic.name for topic in some])
        _commit(journal, touched, documents, "unpin")
    detail = {"topics": len(maps), "kept": sorted(kept.intersection(pinned))}
    journal.append("unpin", "undone", (environment.monotonic() - before) * 1000, detail)


def _commit(journal: Journal, touched: Touched, documents: Documents, step: str) -> None:
    """Under a change id of its own: there may be several revisions."""
    touched.commit(journal, documents, f"{step}.{touched.versions[Operation, journal.operation.id]}")
