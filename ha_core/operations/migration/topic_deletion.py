"""Deletion of topics in all clusters, with everything that is stored about them, so that a new topic of the same name
starts empty.

The first revision of an operation replaces each topic's document by a tombstone (`Topic.deletion`) and ends its
mirrors, lost tails and last sequences. From then on gateways answer as if the topic existed in no cluster, and refuse
to create one of its name. When all gateways serve that revision the topics are deleted, cluster after cluster, by the
ids that they had when they were judged: a topic that was created under the name past the gateways stays. Stored usage,
last seen facts and commits go next, and the last revision removes the tombstones.

Every step may be repeated, so the operation continues wherever it was killed. If a cluster could not be reached the
operation fails and its tombstones stay: no cluster serves the topic meanwhile, and the next deletion continues.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import (
    DeletionRequest,
    Document,
    KnownGroup,
    KnownTopic,
    LastSequences,
    LostTail,
    Mirror,
    SingleOperation,
    Topic,
    UnreadableDocumentError,
    legal_name,
)
from ha_core.model.portions import portions
from ha_core.model.topic import Deletion
from ha_core.operations.clusters.inventory import commits
from ha_core.operations.copies.taken import fence_copiers
from ha_core.operations.copies.writers import open_ended_copies
from ha_core.operations.engine.cluster_admins import admin_of, answering
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError, RefusedError, StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.report import BaseProposal, Report, report_of
from ha_core.operations.engine.single import Expected, Single, beginning, commit_single, unserved
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import Verdict, amount, listed
from ha_core.plan.migration.aging import locked_topics
from ha_core.plan.migration.topic_deletion import DeletionFacts, TopicInCluster, judge
from ha_core.store.commits import Key
from ha_core.store.errors import LockedError

LOOK_S = 30.0
DELETE_S = 60.0
BATCH_TOPICS = 200
"""Topics per operation: it keeps their ids in each cluster, and locks them."""
MAX_TOPICS = 2_000
"""Topics per command."""


class DeletionProposal(BaseProposal):
    """The topics to delete, and the verdicts against it."""

    topics: tuple[str, ...]
    held: Mapping[str, Mapping[str, int | None]]
    """Topic → cluster → records; None: a leader did not answer."""
    mapped: tuple[str, ...] = ()
    """Topics that have a map."""
    unasked: tuple[str, ...] = ()
    """Clusters that did not answer."""


def plan_deletion(environment: Environment, topics: Iterable[str], accept_away: bool = False) -> DeletionProposal:
    """Judge a deletion. Changes nothing.

    :raises RefusedError: no name, too many, or an illegal one.
    :raises UnreadableDocumentError: this version cannot read a lost tail of a topic.
    """
    names = _named(topics)
    environment.store.lost_tails(names)  # only for its error, before an operation begins
    view = environment.store.load()
    facts = _facts(environment, names)
    return DeletionProposal(
        revision=view.revision,
        verdicts=judge(view, names, facts, accept_away),
        topics=names,
        held={name: {where: cluster.records for where, cluster in held.items()} for name, held in facts.held.items()},
        mapped=tuple(name for name in names if view.mapped(name) is not None),
        unasked=tuple(sorted(facts.unasked)),
    )


def delete(
    environment: Environment, topics: Iterable[str], reason: str, accept_away: bool = False
) -> tuple[Report, ...]:
    """Delete topics in all clusters, one report for each operation. Safe to repeat.

    :param accept_away: delete although a cluster does not answer.
    :raises RefusedError: no reason, or a verdict is an error. Nothing was changed.
    :raises StepFailedError: as RefusedError, after other topics were deleted.
    :raises LockedError: an operation works on one of them.
    """
    if not reason.strip():
        raise RefusedError("Deleting topics needs a reason. Give --reason.")
    names = _named(topics)
    plan_deletion(environment, names, accept_away).require_sound()
    reports = list[Report]()
    for some in portions(names, BATCH_TOPICS, lambda _: 1):
        try:
            reports.append(_delete(environment, some, reason, accept_away))
        except RefusedError as error:
            if not reports:
                raise
            done = listed(report.operation for report in reports)
            raise StepFailedError(f"{error} Other topics were deleted before, by {done}.") from error
        if reports[-1].result != "succeeded":
            break
    return tuple(reports)


def _named(topics: Iterable[str]) -> tuple[str, ...]:
    names = tuple(sorted({name.strip() for name in topics if name.strip()}))
    if not names:
        raise RefusedError("No topic is given. Name the topics to delete.")
    if len(names) > MAX_TOPICS:
        raise RefusedError(f"{len(names):,} topics are given; one command deletes at most {MAX_TOPICS:,}.")
    if wrong := [name for name in names if not legal_name(name)]:
        raise RefusedError(
            f"{listed(map(repr, wrong))} is no topic name, and patterns are not allowed. Name the topics."
        )
    return names


def _delete(environment: Environment, names: Sequence[str], reason: str, accept_away: bool) -> Report:
    with beginning(environment, "delete", reason, [f"topic:{name}" for name in names]) as journal:
        with journal.step("delete") as seen:
            # Under the locks nothing of it changes any more, so it is judged again.
            facts = _facts(environment, names, ours=journal.operation.id)
            view = environment.store.load()
            BaseProposal(revision=view.revision, verdicts=judge(view, names, facts, accept_away)).require_sound()
            doomed = {name: {at: cluster.topic_id for at, cluster in held.items()} for name, held in facts.held.items()}
            mirrors = tuple(mirror for mirror in view.mirrors.values() if mirror.topic in doomed.keys() | {*names})
            journal.note(doomed=doomed, unasked=tuple(sorted(facts.unasked)), mirrors=mirrors)
            deletion = Deletion(operation=journal.operation.id, since=environment.now())
            expected = _documents(environment, names, mirrors)
            tombstones = [Topic(name=name, deletion=deletion) for name in names]
            seen.update(topics=list(names), reason=reason, held=doomed)
            commit_single(journal, tombstones, expected, seen)
        Delete().end(journal)
        return report_of(environment, journal.operation)


def _documents(environment: Environment, names: Collection[str], mirrors: Collection[Mirror]) -> Expected:
    """Every stored document about the topics, with its version."""
    store = environment.store
    tails = [tail.key for tail in store.lost_tails(names)]
    keys: list[Key] = [
        *((Topic, name) for name in names),
        *((LastSequences, name) for name in names),
        *((Mirror, mirror.key) for mirror in mirrors),
        *((LostTail, key) for key in tails),
    ]
    found = zip(keys, environment.pool.map(lambda key: store.read(*key), keys), strict=True)
    versions: dict[tuple[type[Document], str], int | None] = {
        key: None if stored is None else stored[1] for key, stored in found
    }
    return {key: version for key, version in versions.items() if version is not None or key[0] is Topic}


def _facts(environment: Environment, names: Collection[str], ours: str = "") -> DeletionFacts:
    """:param ours: id of the operation whose own locks do not count."""
    view = environment.store.load()
    up = answering(environment, view.clusters.values())
    unasked = {
        name: "It is masked." if cluster.masked is not None else "It does not answer."
        for name, cluster in view.clusters.items()
        if name not in up
    }

    def look(cluster: str) -> dict[str, TopicInCluster] | str:
        try:
            there = up[cluster].topics(names, timeout_s=LOOK_S)
            ids = up[cluster].topic_ids([*there], timeout_s=LOOK_S) if there else {}
        except KafkaAdminError as error:
            return f"Its topics cannot be listed: {error}"
        held: dict[str, TopicInCluster] = {}
        for name, topic in there.items():
            known = [ends for index in range(topic.partitions) if (ends := topic.ends.get(index)) is not None]
            records = sum(ends.log_end - ends.start for ends in known) if len(known) == topic.partitions else None
            held[name] = TopicInCluster(ids.get(name, ""), records)
        return held

    held: dict[str, dict[str, TopicInCluster]] = {}
    for cluster, clusters in zip(up, environment.pool.map(look, up), strict=True):
        if isinstance(clusters, str):
            unasked[cluster] = clusters
            continue
        for name, holding in clusters.items():
            held.setdefault(name, {})[cluster] = holding
    readers: dict[str, set[str]] = {}
    for (name, _), several in commits(environment, view, names, up).of.items() if up else ():
        readers.setdefault(name, set()).update(commit.group for commit in several if commit.may_have_members)
    locked = {name: by for name, by in locked_topics(environment.store.locks()).items() if by != ours}
    return DeletionFacts(held, unasked, {name: groups for name, groups in readers.items() if groups}, locked)


class Delete(Single):
    """Deletes topics, cluster after cluster, beginning with their tombstones."""

    names = ("delete",)

    def end(self, journal: Journal[SingleOperation]) -> None:
        environment, evidence = journal.environment, journal.operation.evidence
        names = _tombstones(journal)
        if not names:
            # The last revision was made before its executor died.
            journal.finish("succeeded", "deleted in all clusters")
            return
        again = f"Run `switchyard topics delete` for {listed(names)} again."
        if why := unserved(journal):
            # A gateway that does not serve the tombstones may send clients to a topic, and have it created again.
            journal.finish("failed", f"{why} Nothing is deleted yet. {again}")
            return
        fence_copiers(environment, evidence.mirrors)
        open_ended_copies(journal, evidence.mirrors)
        left = _delete_in_clusters(journal)
        if left:
            failures = "; ".join(f"in {cluster}: {why}" for cluster, why in sorted(left.items()))
            text = f"Clients see {listed(names)} as deleted. Not certainly deleted: {amount_of(names)} {failures}"
            journal.finish("failed", f"{text.rstrip('.')}. The name stays taken until then. {again}")
            return
        with journal.step("forget") as seen:
            _forget(journal, names)
            expected: Expected = {(Topic, name): version for name, version in names.items()}
            commit_single(journal, (), expected, seen)
        # A client may create the topic at once, through a gateway that still has the tombstone.
        late = unserved(journal)
        journal.finish("failed" if late else "succeeded", late or "deleted in all clusters, and forgotten")


def amount_of(names: Collection[str]) -> str:
    return amount(len(names), "topic")


def _tombstones(journal: Journal[SingleOperation]) -> dict[str, int]:
    """Topic → version of its tombstone, for the tombstones that this operation has left."""
    store, operation = journal.environment.store, journal.operation
    locked = [lock.key.removeprefix("topic:") for lock in store.locks() if lock.operation == operation.id]
    found: dict[str, int] = {}
    for name in locked:
        stored = store.read(Topic, name)
        if stored is not None and stored[0].deletion is not None and stored[0].deletion.operation == operation.id:
            found[name] = stored[1]
    return found


def _delete_in_clusters(journal: Journal[SingleOperation]) -> dict[str, str]:
    """Cluster → why topics may be left there. Clusters that are not registered any more do not count."""
    environment, evidence = journal.environment, journal.operation.evidence
    registered = environment.store.clusters()
    left = {cluster: "it did not answer when they were judged" for cluster in evidence.unasked if cluster in registered}
    doomed = grouped((cluster, (name, id_)) for name, held in evidence.doomed.items() for cluster, id_ in held.items())
    for cluster, ids in sorted(doomed.items()):
        if cluster not in registered:
            continue
        try:
            with journal.step("delete-topics") as seen:
                seen["cluster"] = cluster
                admin = admin_of(environment, cluster)
                deleted = admin.delete_topics(dict(ids), journal.still_ours, DELETE_S)
                seen["deleted"] = list(deleted)
        except (KafkaAdminError, RefusedError) as error:
            left[cluster] = str(error)
    return left


def _forget(journal: Journal[SingleOperation], names: Collection[str]) -> None:
    """Forget the topics: usage, last seen facts, and commits that a cluster keeps without the topic.

    A coordinator forgets commits only when the topic is deleted in its own cluster.
    """
    environment = journal.environment
    store, view = environment.store, environment.store.load()
    store.forget_usage(names)
    store.forget_deleted(names)
    for cluster in view.clusters:
        store.forget_known(KnownTopic, cluster, names)
        stale = [
            group.changed(offsets={topic: found for topic, found in group.offsets.items() if topic not in names})
            for group in store.known(KnownGroup, cluster).values()
            if not group.offsets.keys().isdisjoint(names)
        ]
        store.renew_known(KnownGroup, cluster, stale)
    up = answering(environment, view.clusters.values())
    known = commits(environment, view, names, up).of.items()
    by_group = grouped(((commit.cluster, commit.group), key) for key, several in known for commit in several)
    for (cluster, group), keys in by_group.items():
        _forget_commits(journal, up.get(cluster), group, keys)


def _forget_commits(
    journal: Journal[SingleOperation], admin: Admin | None, group: str, keys: Collection[tuple[str, int]]
) -> None:
    kept: Any = keys
    try:
        if admin is not None:
            kept = admin.delete_group_offsets(group, keys, journal.still_ours)
    except KafkaAdminError as error:
        journal.environment.say(f"group {group} keeps offsets of deleted topics: {error}")
        return
    if kept:
        topics = listed(sorted({topic for topic, _ in kept}))
        journal.environment.say(f"group {group} keeps offsets of {topics}: its members are subscribed to it")


TOLD_S = 60.0
"""Time for which a refusal waits for the gateway that asked. Longer than any client waits for it."""


def requested(environment: Environment) -> tuple[DeletionRequest, ...]:
    """Requests to be carried out now. Refusals that no gateway has fetched are removed."""
    requests = environment.store.requested_deletions()
    for request in requests:
        if request.refused and environment.age_s(request.at) > TOLD_S:
            environment.store.settle_deletion(request.name)
    return tuple(request for request in requests if not request.refused)


def delete_requested(environment: Environment, request: DeletionRequest) -> str:
    """Delete a topic on a client's request; returns the result in words.

    Gateways may not run operations, so processes that recover orphans do it. Several may try at once: the locks of the
    operation decide, and a topic that another operation has locked is tried again later.
    """
    store, name = environment.store, request.name
    reason = f"user {request.user} asked gateway {request.gateway} for it (DELETE_TOPICS)"
    try:
        (report,) = delete(environment, [name], reason)
    except LockedError as error:
        return f"topic {name} is not deleted yet: {error}"
    except UnreadableDocumentError as error:
        # Every further try would fail like this one. The client gets neither paths nor names of other clusters.
        why = f"this version cannot read a document about topic {name}; the log of orphan recovery names it"
        store.request_deletion(request.changed(refused="away", why=why))
        return f"topic {name} is not deleted: {error}"
    except (MoveError, KafkaAdminError) as error:
        causes = _causes(error)
        if causes == {"gone"}:
            store.settle_deletion(name)  # an earlier process deleted it, and died before this
            return f"topic {name} is deleted"
        if causes == {"busy"}:
            return f"topic {name} is not deleted yet: {error}"
        asked = isinstance(error, RefusedError) and "away" not in causes
        store.request_deletion(request.changed(refused="asked" if asked else "away", why=str(error)))
        return f"topic {name} is not deleted: {error}"
    store.settle_deletion(name)
    return f"topic {name}: {report.words}"


def _causes(error: MoveError | KafkaAdminError) -> set[str]:
    verdicts: tuple[Verdict, ...] = error.verdicts if isinstance(error, MoveError) else ()
    errors = [verdict for verdict in verdicts if verdict.level == "error"]
    return {"gone" if verdict.code == "unknown-topic" else verdict.cause for verdict in errors}
