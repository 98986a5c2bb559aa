"""Ends mirrors, and keeps or deletes their copies.

The mirrors end in one revision. The effects after it may be repeated by any executor that continues the operation:
gateways serve the revision, the target's brokers fence copiers that still run, and unwanted copies are deleted by the
topic id that they had when they were judged. A topic that is created under that name later stays. The operation holds
the locks of its topics to the end, so no move and no other mirror comes between.

An operation keeps the mirrors that it ends, and its document has to fit into ZooKeeper. So many mirrors are ended by
several operations, one after the other. All are judged before the first begins; repeating the command after a crash
continues with the rest.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import Mirror, MirrorPattern, SingleOperation, View
from ha_core.model.mirror_pattern import MAX_EXCLUDED
from ha_core.model.portions import portions
from ha_core.operations.copies.syncing.pair import now_s
from ha_core.operations.copies.taken import fence_copiers
from ha_core.operations.copies.writers import open_ended_copies
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError, unchanged
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.report import Report, report_of
from ha_core.operations.engine.single import SERVED, Expected, Single, beginning, commit_single, unserved
from ha_core.plan.facts.clusters import may_have_members
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import listed
from ha_core.plan.mirror.patterns import would_link_again
from ha_core.plan.mirror.syncing import homes
from ha_core.plan.mirror.unlinking import needed
from ha_core.store.commits import Key
from ha_core.store.errors import StoreError

BATCH_MIRRORS, BATCH_BYTES = 500, 300_000
"""Mirrors per operation, and their bytes: it keeps them, and the ids of their copies."""
DELETE_S = 30.0
JUDGED_S = 30.0
"""Maximum age of the check that the copies are not needed, at a request to delete them."""
_EARLIER = 200
"""Operations to search for one that has ended a mirror before."""


@dataclass(frozen=True, slots=True)
class MirrorsToEnd:
    """The mirrors to end.

    :ivar mirrors: includes those that an earlier operation has ended, if it may have left some of their copies.
    :ivar expected: the documents of linked mirrors, with their versions.
    :ivar topic_ids: copies to be deleted → the ids of their topics.
    :ivar patterns: patterns that would link them again, as they leave these topics out from then on.
    """

    mirrors: tuple[Mirror, ...]
    expected: Expected
    topic_ids: Mapping[str, str]
    patterns: tuple[MirrorPattern, ...] = ()


def unlink(
    environment: Environment, topics: Collection[str], target: str, reason: str, delete_copy: bool = False
) -> tuple[Report, ...]:
    """End mirrors, each batch in one revision, and fence copiers that still run at the target's brokers. One report for
    each operation; after a failed one no other begins.

    :param delete_copy: delete the copies too; else they stay as they are.
    :raises RefusedError: a topic has no mirror there, there is no reason, or a copy that is to be deleted is needed.
    :raises StepFailedError: as RefusedError, after others were ended.
    :raises LockedError: an operation works on one of them.
    :raises KafkaAdminError: the target does not answer whether its copies are needed.
    """
    if not reason.strip():
        raise RefusedError("Ending a mirror needs a reason. Give --reason.")
    mirrors = judged(environment, topics, target, delete_copy).mirrors
    if before := sorted(set(topics) - {mirror.topic for mirror in mirrors}):
        environment.say(f"the mirrors of {listed(before)} in {target} were ended before")
    reports = list[Report]()
    for some in portions(mirrors, BATCH_BYTES, lambda mirror: len(mirror.to_bytes()), BATCH_MIRRORS):
        names = [mirror.topic for mirror in some]
        try:
            reports.append(_end(environment, names, target, reason, delete_copy))
        except (RefusedError, KafkaAdminError, StoreError) as error:
            if not reports:
                raise
            raise StepFailedError(_after(error, names, reports)) from error
        if reports[-1].result != "succeeded":
            break
    return tuple(reports)


def _end(environment: Environment, topics: Sequence[str], target: str, reason: str, delete_copy: bool) -> Report:
    with beginning(environment, "unlink", reason, [f"topic:{name}" for name in sorted(topics)]) as journal:
        with journal.step("unlink") as seen:
            mirrors_to_end = judged(environment, topics, target, delete_copy)  # under the locks nothing of it changes
            seen.update(topics=sorted(topics), target=target, reason=reason, delete_copy=delete_copy)
            deletes_in = target if delete_copy else ""
            journal.note(
                mirrors=mirrors_to_end.mirrors, deletes_in=deletes_in, topic_ids=dict(mirrors_to_end.topic_ids)
            )
            if left_out_by := [pattern.key for pattern in mirrors_to_end.patterns]:
                seen.update(left_out_by=left_out_by)
                environment.say(f"left out by the patterns {listed(left_out_by)} from now on")
            commit_single(journal, mirrors_to_end.patterns, mirrors_to_end.expected, seen)
        Unlink().end(journal)
        return report_of(environment, journal.operation)


def _after(error: Exception, names: Sequence[str], reports: Sequence[Report]) -> str:
    text = error.reason if isinstance(error, RefusedError) else str(error)
    ended = listed(report.operation for report in reports)
    return f"{text} So the mirrors of {listed(names)} and of later batches stay; others were ended before, by {ended}."


def judged(environment: Environment, topics: Collection[str], target: str, delete_copy: bool) -> MirrorsToEnd:
    """The mirrors that `unlink` would end, and the copies that it would delete. Changes nothing.

    :raises RefusedError: a topic has no mirror there, or a copy that is to be deleted is needed.
    :raises KafkaAdminError: the target does not answer whether its copies are needed.
    """
    names = sorted(set(topics))
    read = environment.pool.map(lambda name: environment.store.read(Mirror, f"{name}@{target}"), names)
    standing = {stored[0].topic: stored for stored in read if stored is not None}
    missing = [name for name in names if name not in standing]
    earlier = dict(_ended_earlier(environment, missing, target)) if missing else {}
    # Without a topic id (brokers before 2.8) it may be another topic of the same name by now.
    left = {name: (mirror, topic_id) for name, (mirror, topic_id) in earlier.items() if topic_id} if delete_copy else {}
    # Some may have ended already: the command is repeated after a crash between two operations, or in one.
    known = earlier.keys() if standing else left.keys()
    if without := [name for name in missing if name not in known]:
        raise unchanged(f"{listed(without)} has no mirror in {target}. `switchyard mirrors` lists them.")
    _require_no_chain(environment, standing, target)
    mirrors = {name: stored[0] for name, stored in standing.items()} | {
        name: mirror for name, (mirror, _) in left.items()
    }
    expected: Expected = {(Mirror, mirror.key): version for mirror, version in standing.values()}
    ids: dict[str, str] = {}
    if delete_copy:
        ids = _deletable(environment, [stored[0] for stored in standing.values()], target)
        ids |= _deletable(environment, [mirror for mirror, _ in left.values()], target)
        ids |= {name: topic_id for name, (_, topic_id) in left.items()}
    patterns, versions = _leaving_out(environment, [stored[0] for stored in standing.values()])
    return MirrorsToEnd(tuple(mirrors.values()), {**expected, **versions}, ids, patterns)


def _leaving_out(
    environment: Environment, mirrors: Sequence[Mirror]
) -> tuple[tuple[MirrorPattern, ...], dict[Key, int | None]]:
    """The patterns that would link these topics again, as they leave them out; and the versions on which that rests.

    :raises RefusedError: a pattern has no room for their names.
    """
    patterns, versions = list[MirrorPattern](), dict[Key, int | None]()
    for one in environment.store.mirror_patterns():
        if (stored := environment.store.read(MirrorPattern, one.key)) is None:
            continue
        for pattern in would_link_again([stored[0]], mirrors):
            if len(pattern.exclude) > MAX_EXCLUDED:
                raise unchanged(
                    f"The pattern {pattern.pattern} would link them again, and leaves out {MAX_EXCLUDED} names at "
                    f"most. Remove it first: `switchyard mirror unlink '{pattern.pattern}' --to {pattern.target}`."
                )
            patterns.append(pattern)
            versions[MirrorPattern, pattern.key] = stored[1]
    return tuple(patterns), versions


def _require_no_chain(environment: Environment, topics: Collection[str], target: str) -> None:
    """:raises RefusedError: a copy is the source of another mirror, which would get no more records."""
    chained = [mirror for mirror in environment.store.mirrors() if mirror.topic in topics and mirror.source == target]
    if chained:
        first, what = chained[0], listed(f"{mirror.topic} in {mirror.target}" for mirror in chained)
        raise unchanged(
            f"Mirrors are copied from copies in {target}, and would get no more records: {what}. End these first: "
            f"`switchyard mirror unlink {first.topic} --to {first.target}`."
        )


class Unlink(Single):
    """Ends mirrors, and deletes their copies if asked to."""

    names = ("unlink",)

    def end(self, journal: Journal[SingleOperation]) -> None:
        why, evidence = unserved(journal), journal.operation.evidence
        fence_copiers(journal.environment, evidence.mirrors)
        open_ended_copies(journal, evidence.mirrors)
        if why or not evidence.deletes_in:
            journal.finish("failed" if why else "succeeded", why or SERVED)
            return
        left = f"Run `mirror unlink … --to {evidence.deletes_in} --delete-copy` for these topics again."
        if not all(evidence.topic_ids.values()):
            left = (
                f"Delete them there, if they are still the copies: brokers of {evidence.deletes_in} have no topic ids."
            )
        try:
            with journal.step("delete") as seen:
                target = admin_of(journal.environment, evidence.deletes_in)
                judged_s = now_s()
                _require_not_needed(journal.environment, target, evidence.mirrors)
                still_to_go = partial(_require_to_go, journal, judged_s)
                seen["deleted"] = list(target.delete_topics(evidence.topic_ids, still_to_go, DELETE_S))
        except (KafkaAdminError, RefusedError) as error:
            journal.finish("failed", f"{_ended_words(journal)} Not every copy is deleted: {error} {left}")
        else:
            journal.finish("succeeded", f"{SERVED}; copies deleted in {target.cluster.name}")


def _ended_words(journal: Journal[SingleOperation]) -> str:
    """The changes of an operation that could not delete all copies."""
    evidence = journal.operation.evidence
    mirrors_words = f"The mirrors of {listed(mirror.topic for mirror in evidence.mirrors)} have ended."
    try:
        there = admin_of(journal.environment, evidence.deletes_in).topic_ids(evidence.topic_ids)
    except (KafkaAdminError, RefusedError):
        return f"{mirrors_words} {evidence.deletes_in} does not answer which copies are deleted by now."
    gone = [name for name, topic_id in evidence.topic_ids.items() if there.get(name) not in {topic_id, ""}]
    return f"{mirrors_words} Copies of {listed(gone)} are deleted." if gone else mirrors_words


def _require_to_go(journal: Journal[SingleOperation], judged_s: float) -> None:
    """Check before each request. The locks keep moves of the topics away, but not a group that moves to the cluster
    with its offsets while this process stalls.

    :raises RefusedError: the check that the copies are not needed is too old.
    """
    if now_s() - judged_s > JUDGED_S:
        raise RefusedError(f"the check that they are not needed is older than {JUDGED_S:g} s.")
    journal.still_ours()


def _deletable(environment: Environment, mirrors: Collection[Mirror], target: str) -> dict[str, str]:
    """Existing copies → the ids of their topics. :raises RefusedError: one is needed, or is no copy."""
    if not mirrors:
        return {}
    admin = admin_of(environment, target)
    ids = admin.topic_ids([mirror.topic for mirror in mirrors])
    if why := _needed(environment, admin, mirrors):
        raise unchanged(why)
    for name, copied in _copied_to(admin, mirrors).items():
        if name in ids and ids[name] != copied:
            raise unchanged(
                f"Topic {name} in {target} is not the topic that was copied: it was created again. Unlink it without "
                "--delete-copy, and look at its contents."
            )
    return ids


def _require_not_needed(environment: Environment, target: Admin, mirrors: Collection[Mirror]) -> None:
    """For ended mirrors. :raises RefusedError: their copies are needed."""
    if why := _needed(environment, target, mirrors):
        raise RefusedError(why)


def _needed(environment: Environment, target: Admin, mirrors: Collection[Mirror]) -> str:
    """Why a copy is not deleted; empty: none is needed."""
    view, cluster, names = environment.store.load(), target.cluster.name, {mirror.topic for mirror in mirrors}
    tails = environment.store.lost_tails(names, cluster)
    if why := _without_source(environment, mirrors):
        return why
    groups = _at_home(environment, view, target, names)
    for name in sorted(names):
        if why := needed(view, name, cluster, tails, groups.get(name, ())):
            return f"The copy of {name} in {cluster} is not deleted: {why}."
    return ""


def _without_source(environment: Environment, mirrors: Collection[Mirror]) -> str:
    """The copies that may be the last logs of their topics, since their sources do not answer; empty: none."""
    for source, names in sorted(grouped((mirror.source, mirror.topic) for mirror in mirrors).items()):
        try:
            topics = admin_of(environment, source).topics(names)
            silent = sorted(name for name, topic in topics.items() if len(topic.ends) < topic.partitions)
            why = f"leaders of {listed(silent)} do not answer" if silent else ""
        except (KafkaAdminError, RefusedError) as error:
            why = str(error)
        if why:
            return (
                f"Copies of {listed(sorted(names))} are not deleted: their source {source} does not answer for all of "
                f"them ({why}), so they may be the last logs. Wait until it does, or unlink without --delete-copy."
            )
    return ""


def _at_home(environment: Environment, view: View, target: Admin, names: Collection[str]) -> dict[str, set[str]]:
    """Topic → groups with committed offsets of it that are routed to the target or have members there."""
    states, led = target.list_groups(), homes(view, environment.store.usage().values())
    found: dict[str, set[str]] = {}
    for group, committed in target.group_offsets(sorted(states), stable=False).items():
        has_members = bool(states[group]) and may_have_members(states[group])
        if has_members or target.cluster.name in led.get(group, ()):
            for topic in {topic for topic, _ in committed}.intersection(names):
                found.setdefault(topic, set()).add(group)
    return found


def _copied_to(target: Admin, mirrors: Iterable[Mirror]) -> dict[str, str]:
    """Topic → id of the topic that its copiers wrote to; without topics that they have not begun or have no id for."""
    by_log = grouped((first.log, first) for mirror in mirrors for first in copies_of(mirror, 1))
    found: dict[str, str] = {}
    for log in target.leaderships(by_log):
        try:
            notes = target.read_notes(log, {copy.id: 0 for copy in by_log[log]})
        except CopyDamagedError as error:
            raise unchanged(f"The copy log of {target.cluster.name} does not show its copies: {error}") from error
        for id_, known in notes.items():
            if known.progress is not None and known.progress.topics.target:
                found[id_.topic] = known.progress.topics.target
    return found


def _ended_earlier(
    environment: Environment, names: Collection[str], target: str
) -> Iterator[tuple[str, tuple[Mirror, str]]]:
    """Topics of `names` whose mirror in `target` an earlier operation has ended: the mirror, and the id of its copy if
    that was to be deleted. The newest comes last."""
    for operation in reversed(environment.store.operations(_EARLIER)):
        if isinstance(operation, SingleOperation) and operation.state != "undone":
            for mirror in operation.evidence.mirrors:
                if mirror.topic in names and mirror.target == target:
                    topic_id = operation.evidence.topic_ids.get(mirror.topic, "")
                    yield mirror.topic, (mirror, topic_id if operation.evidence.deletes_in == target else "")
