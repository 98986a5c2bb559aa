"""Mirrors ended, their copies kept or deleted.

The mirrors end in one revision. What is done behind it may be repeated, by whoever goes on with the operation: gateways
serve it, the target's brokers refuse who copies still, and a copy that is to go is deleted, by the id that its topic
had when it was judged. What somebody makes under that name later stays. Until all of it is done the operation has the
locks of its topics, so no move and no other mirror comes between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.takeover import Copy
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import Mirror, SingleOperation, View
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError, unchanged
from ha_core.operations.journal import Journal
from ha_core.operations.report import Report, report_of
from ha_core.operations.sides import admin_of
from ha_core.operations.single import SERVED, Expected, OneRevision, beginning, commit_single, unserved
from ha_core.operations.switch.copies import refuse_copiers
from ha_core.operations.syncing.pair import now_s
from ha_core.operations.syncing.rights import let_writers_in
from ha_core.plan.facts import Partition, is_live
from ha_core.plan.syncing import homes
from ha_core.plan.unlinking import needed
from ha_core.plan.verdict import listed

MAX_DELETED = 1_000
"""Copies, by one operation: it keeps their ids."""
DELETE_S = 30.0
JUDGED_S = 30.0
"""So old it may be, at a request to delete, that nobody needs the copies."""
_EARLIER = 200
"""So many operations are looked through for one that was to delete a copy and could not."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What is to be ended.

    :ivar mirrors: with those that an earlier operation has ended, of whose copies something may be left.
    :ivar expected: the documents of those that stand, with their versions.
    :ivar topic_ids: copies to be deleted → the ids of their topics.
    """

    mirrors: tuple[Mirror, ...]
    expected: Expected
    topic_ids: Mapping[str, str]


def unlink(
    environment: Environment, topics: Collection[str], target: str, reason: str, delete_copy: bool = False
) -> Report:
    """End mirrors in one revision, and have the target's brokers refuse whoever copies them still.

    :param delete_copy: delete the copies besides; else they stay as they are.
    :raises RefusedError: a topic has no mirror there, no reason was given, or a copy that is to go is needed.
    :raises LockedError: an operation works on one of them.
    :raises KafkaAdminError: the target does not say whether its copies may go.
    """
    if not reason.strip():
        raise RefusedError("Ending a mirror needs a reason. Say --reason.")
    judged(environment, topics, target, delete_copy)
    with beginning(environment, "unlink", reason, [f"topic:{name}" for name in sorted(set(topics))]) as journal:
        with journal.step("unlink") as seen:
            found = judged(environment, topics, target, delete_copy)  # nothing of it changes under the locks
            seen.update(topics=sorted(set(topics)), target=target, reason=reason, delete_copy=delete_copy)
            deletes_in = target if delete_copy else ""
            journal.note(mirrors=found.mirrors, deletes_in=deletes_in, topic_ids=dict(found.topic_ids))
            commit_single(journal, (), found.expected, seen)
        Unlink().end(journal)
        return report_of(environment, journal.operation)


def judged(environment: Environment, topics: Collection[str], target: str, delete_copy: bool) -> Ended:
    """What `unlink` would end, and delete. Changes nothing.

    :raises RefusedError: a topic has no mirror there, or a copy that is to go is needed.
    :raises KafkaAdminError: the target does not say whether its copies may go.
    """
    found = {name: environment.store.read(Mirror, f"{name}@{target}") for name in topics}
    missing = sorted(name for name, stored in found.items() if stored is None)
    earlier = _left_by_earlier(environment, missing, target) if missing and delete_copy else {}
    if without := [name for name in missing if name not in earlier]:
        raise unchanged(f"{listed(without)} has no mirror in {target}. `switchyard mirrors` lists them.")
    standing = {stored[0].topic: stored for stored in found.values() if stored is not None}
    mirrors = {name: stored[0] for name, stored in standing.items()} | {name: one for name, (one, _) in earlier.items()}
    expected: Expected = {(Mirror, mirror.key): version for mirror, version in standing.values()}
    ids: dict[str, str] = {}
    if delete_copy:
        if len(mirrors) > MAX_DELETED:
            raise unchanged(f"{len(mirrors)} copies are to be deleted at once, and {MAX_DELETED} may: say it in parts.")
        ids = _deletable(environment, [stored[0] for stored in standing.values()], target)
        ids |= _deletable(environment, [one for one, _ in earlier.values()], target)
        ids |= {name: topic_id for name, (_, topic_id) in earlier.items()}
    return Ended(tuple(mirrors.values()), expected, ids)


class Unlink(OneRevision):
    """Mirrors that end, and what becomes of their copies."""

    names = ("unlink",)

    def end(self, journal: Journal[SingleOperation]) -> None:
        why, evidence = unserved(journal), journal.operation.evidence
        for mirror in evidence.mirrors:
            refuse_copiers(journal.environment, mirror)
        _let_writers_in(journal)
        if why or not evidence.deletes_in:
            journal.finish("failed" if why else "succeeded", why or SERVED)
            return
        left = f"Say `mirror unlink … --to {evidence.deletes_in} --delete-copy` of these topics again."
        if not all(evidence.topic_ids.values()):
            left = f"Delete them there, if they are the same still: brokers of {evidence.deletes_in} have no topic ids."
        try:
            with journal.step("delete") as seen:
                target = admin_of(journal.environment, evidence.deletes_in)
                judged_s = now_s()
                _require_not_needed(journal.environment, target, evidence.mirrors)
                still_to_go = partial(_require_to_go, journal, judged_s)
                seen["deleted"] = list(target.delete_topics(evidence.topic_ids, still_to_go, DELETE_S))
        except (KafkaAdminError, RefusedError) as error:
            journal.finish("failed", f"The mirrors have ended, and not every copy is deleted: {error} {left}")
        else:
            journal.finish("succeeded", f"{SERVED}; copies deleted in {target.cluster.name}")


def _require_to_go(journal: Journal[SingleOperation], judged_s: float) -> None:
    """Asked next to each request. The locks keep moves of the topics away, and not a group that comes to the cluster
    with its offsets while this process stands still.

    :raises RefusedError: whether the copies are needed was judged too long ago.
    """
    if now_s() - judged_s > JUDGED_S:
        raise RefusedError(f"whether they are needed was judged more than {JUDGED_S:g} s ago.")
    journal.still_ours()


def _let_writers_in(journal: Journal[SingleOperation]) -> None:
    """Into what is no copy any more: who writes there next is refused by no rule of ours."""
    by_target: dict[str, list[str]] = {}
    for mirror in journal.operation.evidence.mirrors:
        by_target.setdefault(mirror.target, []).append(mirror.topic)
    for name, topics in by_target.items():
        try:
            target = admin_of(journal.environment, name)
            let_writers_in(target, target.access_rules(), topics, journal.still_ours)
        except (KafkaAdminError, RefusedError) as error:
            journal.environment.say(
                f"rules of {name} that let nobody write to {listed(topics)} may be left: {error} `switchyard mirror "
                "sync` takes them away when it answers."
            )


def _deletable(environment: Environment, mirrors: Collection[Mirror], target: str) -> dict[str, str]:
    """Copies that exist → the ids of their topics. :raises RefusedError: one is needed, or is no copy."""
    if not mirrors:
        return {}
    admin = admin_of(environment, target)
    ids = admin.topic_ids([mirror.topic for mirror in mirrors])
    _require_not_needed(environment, admin, mirrors)
    for name, copied in _copied_to(admin, mirrors).items():
        if name in ids and ids[name] != copied:
            raise unchanged(
                f"Topic {name} in {target} is another one than that which was copied: it was made again. Unlink it "
                "without --delete-copy, and see what it is."
            )
    return ids


def _require_not_needed(environment: Environment, target: Admin, mirrors: Collection[Mirror]) -> None:
    view, tails, cluster = environment.store.load(), environment.store.lost_tails(), target.cluster.name
    names = {mirror.topic for mirror in mirrors}
    groups = _at_home(environment, view, target, names)
    for name in sorted(names):
        if why := needed(view, name, cluster, tails, groups.get(name, ())):
            raise unchanged(f"The copy of {name} in {cluster} is not deleted: {why}.")


def _at_home(environment: Environment, view: View, target: Admin, names: Collection[str]) -> dict[str, set[str]]:
    """Topic → groups that are led there or have members there, with committed offsets of it."""
    states, led = target.list_groups(), homes(view, environment.store.usage().values())
    found: dict[str, set[str]] = {}
    for group, committed in target.group_offsets(sorted(states), stable=False).items():
        live = bool(states[group]) and is_live(states[group])
        if live or target.cluster.name in led.get(group, ()):
            for topic in {topic for topic, _ in committed}.intersection(names):
                found.setdefault(topic, set()).add(group)
    return found


def _copied_to(target: Admin, mirrors: Iterable[Mirror]) -> dict[str, str]:
    """Topic → id of the topic that its copiers wrote to; those that have not begun, or know none, are missing."""
    by_log: dict[Partition, list[Copy]] = {}
    for mirror in mirrors:
        (first,) = copies_of(mirror, 1)
        by_log.setdefault(first.log, []).append(first)
    found: dict[str, str] = {}
    for log in target.leaderships(by_log):
        try:
            notes = target.read_notes(log, {copy.id: 0 for copy in by_log[log]})
        except CopyDamagedError as error:
            raise unchanged(f"Nobody can say what the copies in {target.cluster.name} are: {error}") from error
        for id_, known in notes.items():
            if known.progress is not None and known.progress.topics.target:
                found[id_.topic] = known.progress.topics.target
    return found


def _left_by_earlier(environment: Environment, names: Collection[str], target: str) -> dict[str, tuple[Mirror, str]]:
    """Copies that an earlier operation was to delete, as far as nobody has mirrored them since: the mirror that it
    ended, and the topic's id."""
    found: dict[str, tuple[Mirror, str]] = {}
    for operation in environment.store.operations(_EARLIER):
        if isinstance(operation, SingleOperation) and operation.evidence.deletes_in == target:
            for mirror in operation.evidence.mirrors:
                # Without an id (before 2.8) nobody can say that it is not another one of its name by now.
                topic_id = operation.evidence.topic_ids.get(mirror.topic)
                if mirror.topic in names and topic_id:
                    found.setdefault(mirror.topic, (mirror, topic_id))
    return found
