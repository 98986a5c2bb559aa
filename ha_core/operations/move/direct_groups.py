"""After a switch to copies, commits the places of the topics' direct groups in the target, by the copies' maps.

A switch does not move these groups: no gateway knows them, and their consumers may stay in the origin, which becomes a
copy, or start in the target at any time. After the cut the copies get no more records of the origin, so the places are
exact. No client waits for this step, and it may be repeated.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ha_core.flows.translation import CopiedEnd, Translated, by_runs
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.groups import Committed
from ha_core.kafka.takeover import CopyPartition
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.comparing import CopyMap
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import KnownGroup, LostTail, Mirror, SwitchOperation, View
from ha_core.operations.engine.cluster_admins import DYING_S, ask_dying, origin_of
from ha_core.operations.engine.journal import Journal
from ha_core.plan.facts.clusters import Partition, may_have_members
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.mirror.carried import translated_offsets
from ha_core.plan.mirror.syncing import offsets_due

Commits = Mapping[str, Mapping[Partition, Committed]]


def carry_direct_groups(journal: Journal[SwitchOperation]) -> None:
    """Commit the groups' places, and note the result in the operation's evidence. A failure is noted there, too, and
    the switch goes on."""
    view = journal.environment.store.load()
    links = {one.topic: one for one in _ended(journal)}
    if not view.direct_groups or not links:
        return
    with journal.step("direct-groups") as seen:
        try:
            done, left = _carry(journal, view, links)
        except (KafkaAdminError, CopyDamagedError) as error:
            text = (
                f"direct groups in {journal.request.target} keep the places of the last sync: {error} `switchyard "
                "direct-groups carry` computes them anew"
            )
        else:
            text = _words(journal.request.target, done, left)
        seen["groups"] = text
    if text != journal.operation.evidence.direct_groups:
        journal.note(direct_groups=text)


def _ended(journal: Journal[SwitchOperation]) -> Iterator[Mirror | LostTail]:
    """The mirrors that the cut has ended; after a forced cut also their lost tails, which record how they copied."""
    operation = journal.operation
    yield from operation.evidence.ended.values()
    if operation.request.mode == "forced" and operation.evidence.went_to_copies:
        tails = journal.environment.store.lost_tails(operation.evidence.went_to_copies)
        yield from (tail for tail in tails if tail.operation == operation.id)


def _carry(
    journal: Journal[SwitchOperation], view: View, links: Mapping[str, Mirror | LostTail]
) -> tuple[list[str], dict[str, str]]:
    """Commit the places; returns the groups that have theirs, and the other groups with the reason."""
    commits, seen = _commits(journal, view, links.keys())
    target, store = journal.target, journal.environment.store
    checkpoints = store.checkpoints(*journal.operation.route)
    by_link = {topic: one.link for topic, one in links.items()}
    maps = _maps(target, _copies(links, {key for its in commits.values() for key in its}))
    states, there = target.list_groups(), target.group_offsets(sorted(commits), stable=False)
    counts = target.partition_counts(links) if commits else {}

    def translate(key: Partition, offset: int) -> int | str:
        copied = maps.get(key)
        if copied is None:
            return "nothing is copied"
        place = by_runs(copied.map.runs, offset, CopiedEnd(copied.map.source, copied.map.target), copied.start)
        return place.offset if isinstance(place, Translated) else place.reason

    done, left = list[str](), dict[str, str]()
    for name, its in sorted(commits.items()):
        document = checkpoints.get(name)
        before = {} if document is None else {key: at for key, (_, at) in document.valid(by_link).items()}
        wanted = translated_offsets(its, seen.get(name, {}), before, translate)
        due = offsets_due(wanted.commits, there[name], wanted.ours, counts)
        if states.get(name) and may_have_members(states[name]):
            left[name] = f"it has members in {target.cluster.name}"
            continue
        if due.copy:
            target.set_group_offsets(name, due.copy, still_ours=journal.still_ours)
        missing = [*due.ahead, *due.lacking, *wanted.untranslated]
        if missing:
            left[name] = f"it is ahead there, or no map has its place: {listed(f'{t}-{p}' for t, p in missing)}"
        else:
            done.append(name)
    return done, left


def _commits(
    journal: Journal[SwitchOperation], view: View, topics: Iterable[str]
) -> tuple[Commits, Mapping[str, Mapping[Partition, int]]]:
    """Commits of direct groups for these topics in the origin (last known ones if it is dead), and commits known
    before."""
    environment, request = journal.environment, journal.request
    known = {
        name: group.committed
        for name, group in environment.store.known(KnownGroup, request.origin).items()
        if view.direct(name) is not None
    }

    def read(origin: Admin, timeout_s: float | None = None) -> Commits:
        names = [name for name in origin.list_groups(timeout_s) if view.direct(name) is not None]
        return origin.group_offsets(names, stable=False, timeout_s=timeout_s)

    found: Commits | None
    if request.mode == "forced":
        found = ask_dying(environment, origin_of(environment, request), lambda origin: read(origin, DYING_S))
    else:
        found = read(journal.origin)
    if found is None:
        found = {name: {key: (offset, "") for key, offset in committed.items()} for name, committed in known.items()}
    names = frozenset(topics)
    ours = {name: {key: at for key, at in committed.items() if key[0] in names} for name, committed in found.items()}
    return {name: some for name, some in ours.items() if some}, known


def _copies(links: Mapping[str, Mirror | LostTail], partitions: Iterable[Partition]) -> list[CopyPartition]:
    return [copy for topic, partition in sorted(partitions) for copy in copies_of(links[topic], [partition])]


class _Copied(NamedTuple):
    """
    :ivar start: log start of the copy.
    """

    map: CopyMap
    start: int


def _maps(target: Admin, copies: list[CopyPartition]) -> dict[Partition, _Copied]:
    """The copies' maps. Records that clients have written to the copies since the cut do not count as damage here."""
    keys, read = {copy.id: copy.key for copy in copies}, target.read_copies(copies) if copies else {}
    return {keys[id_]: _Copied(one.copied, one.ends.start) for id_, one in read.items() if one.copied is not None}


def _words(target: str, done: list[str], left: Mapping[str, str]) -> str:
    if not done and not left:
        return ""
    words = f"{amount(len(done), 'direct group')} has its place in {target}"
    if len(done) != 1:
        words = f"{amount(len(done), 'direct group')} have their places in {target}"
    others = listed(f"{name} ({why})" for name, why in sorted(left.items()))
    return f"{words}; without: {others}" if left else words
