"""Problems of mirrors: those that no job copies, that lack records, or whose settings and groups are not in sync."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ha_core.kafka.errors import KafkaAdminError, TopicMissingError
from ha_core.kafka.verifying import Coverage, plan_all
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import KnownTopic, Mirror, Run, View
from ha_core.model.mirror import begins_at
from ha_core.operations.clusters.mirrors import mirrors_now, synced
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.problem import Problem, ProblemCode
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.mirror.mirrored_topics import is_chained

MAX_MIRRORS = 200
"""Examined in one check: each mirror may have its notes in another partition of the copy log."""
_NOTHING = Coverage(share=1e-9)
"""No record is compared here."""


class LackingCopy(NamedTuple):
    """
    :ivar records: number that the source has and the copy has deleted; None: unknown.
    :ivar at_most: `records` is an upper bound, because the source is compacted.
    :ivar partitions: those that lack records.
    :ivar why: the reason if `records` is unknown.
    """

    mirror: Mirror
    records: int | None
    at_most: bool = False
    partitions: tuple[int, ...] = ()
    why: str = ""


def lacking_copies(environment: Environment, view: View) -> tuple[list[LackingCopy], int]:
    """Copies that are known to lack records, by mirror; and the number of candidates that were not examined.

    A copy's own log start does not show that. The last known log starts of both clusters, and the newest runs in
    copiers' reports, show the copies that may lack records. Brokers are asked about these copies only.
    """
    some = sorted(_candidates(environment, view), key=lambda mirror: mirror.key)
    routes = grouped(((mirror.source, mirror.target), mirror) for mirror in some[:MAX_MIRRORS])
    copies = [
        lacking_copy for route, mirrors in routes.items() for lacking_copy in _look_at(environment, route, mirrors)
    ]
    return sorted(copies, key=lambda copy: copy.mirror.key), len(some[MAX_MIRRORS:])


def _candidates(environment: Environment, view: View) -> Iterator[Mirror]:
    standing = [one for one in view.mirrors.values() if one.held is None]
    if not standing:
        return
    known_topics: dict[str, Mapping[str, KnownTopic]] = {}
    for cluster in {side for one in standing for side in (one.source, one.target)}:
        topics = {one.topic for one in standing if cluster in (one.source, one.target)}
        known_topics[cluster] = environment.store.known(KnownTopic, cluster, topics)
    reported = {
        (copied_mirror.link, copied_mirror.mirror, partition): copied.runs
        for document in environment.store.follow_mirror_copies().read()
        for copied_mirror in document.mirrors
        for partition, copied in copied_mirror.partitions.items()
    }
    for mirror in standing:
        here, there = known_topics[mirror.source].get(mirror.topic), known_topics[mirror.target].get(mirror.topic)
        starts = {} if there is None else there.starts
        sources = {} if here is None else here.starts
        if any(
            _may_lack(reported.get((mirror.link, mirror.key, p), ()), sources.get(p, 0), start)
            for p, start in starts.items()
        ):
            yield mirror


def _may_lack(runs: Collection[Run], source_start: int, copy_start: int) -> bool:
    """:param runs: the newest ones in copiers' reports."""
    newest = tuple(runs)
    return not newest or begins_at(newest, copy_start) > source_start


def _look_at(environment: Environment, route: tuple[str, str], mirrors: Collection[Mirror]) -> Iterator[LackingCopy]:
    try:
        source, target = (admin_of(environment, name) for name in route)
        plans = plan_all(source, target, mirrors, _NOTHING)
    except (CopyDamagedError, TopicMissingError) as error:
        if len(mirrors) > 1:
            for mirror in mirrors:
                yield from _look_at(environment, route, [mirror])
        elif isinstance(error, CopyDamagedError):  # the sync of mirrors reports a missing topic
            yield from (LackingCopy(mirror, None, why=str(error)) for mirror in mirrors)
        return
    except (KafkaAdminError, RefusedError):
        return  # another check reports a cluster that does not answer
    for mirror in mirrors:
        lacking = [ranges for ranges in plans[mirror.topic] if ranges.deleted and not ranges.outlived]
        if lacking:
            yield LackingCopy(
                mirror,
                sum(ranges.deleted for ranges in lacking),
                any(ranges.compacted.source for ranges in lacking),
                tuple(ranges.partition for ranges in lacking),
            )


MAX_SYNC_PROBLEMS = 20
MAX_NAMED = 20
BEGINS_S = 60.0
"""The job `mirror` begins with a new mirror within a minute."""
_LATER: ProblemCode = "copy-begins-later"
SEE = "switchyard mirrors"


def uncopied_mirrors(environment: Environment) -> Iterator[Problem]:
    """Mirrors that no job copies, and partitions that wait for an operator."""
    mirrors = mirrors_now(environment)
    waiting = [row for row in mirrors.rows if row.state in {"nobody", "stopped", "unreadable"}]
    begun = {(mirror.topic, mirror.target) for mirror in mirrors.mirrors if environment.age_s(mirror.since) < BEGINS_S}
    lonely = [row for row in waiting if row.state == "nobody" and (row.topic, row.target) not in begun]
    for target, rows in grouped((row.target, row) for row in lonely).items():
        yield Problem(
            "mirror-not-copied",
            f"mirrors in {target}",
            f"No job copies {listed(f'{row.topic} in {target}' for row in rows)}: records written meanwhile are on no "
            "standby.",
            "Start the job `mirror` (`python -m spark_jobs mirror`), or look at its log.",
            "python -m spark_jobs mirror",
            causes=tuple(f"cluster {name}" for name in dict.fromkeys((*(row.source for row in rows), target))),
        )
    for row in waiting:
        causes = f"cluster {row.source}", f"cluster {row.target}"
        if row.state == "unreadable":
            yield Problem(
                "mirror-unreadable",
                f"mirror of {row.topic} in {row.target}",
                f"No copier touches it, and none takes it over: {row.reason}.",
                "If a later version wrote it, bring the job and the tools to that version; else restore the document.",
                SEE,
            )
        if row.state == "stopped":
            yield Problem(
                "mirror-stopped",
                f"mirror of {row.topic}-{row.partition} in {row.target}",
                f"Its copier has stopped: {row.reason}.",
                "Follow the reason: after a refused setting or right the copier retries within a minute. Or end the "
                f"mirror (`switchyard mirror unlink {row.topic} --to {row.target}`), delete the copy, and link it "
                "again.",
                f"switchyard mirror verify {row.topic} --to {row.target} --sample",
                causes=causes,
            )


def orphaned(environment: Environment, view: View) -> Iterator[Problem]:
    """Mirrors whose source gets no more records: it is neither the topic's writer nor a copy. They have no lag."""
    locks = environment.store.lock_keys()  # between its cut and its end a switch has ended mirrors that go on later
    for _, mirror in sorted(view.mirrors.items()):
        topic = view.mapped(mirror.topic)
        if topic is None or mirror.source in topic.writers or is_chained(view, mirror):
            continue
        if f"topic:{mirror.topic}" not in locks:
            yield Problem(
                "mirror-without-source",
                f"mirror of {mirror.topic} in {mirror.target}",
                f"{mirror.source}, its source, is neither the writer nor a copy any more: it gets no more records.",
                f"`switchyard mirror unlink {mirror.topic} --to {mirror.target} --delete-copy`, then link it from "
                f"{listed(sorted(topic.writers))} or from a copy.",
                f"switchyard mirror unlink {mirror.topic} --to {mirror.target} --delete-copy "
                "--reason mirror-without-source",
            )


def lacking(environment: Environment, view: View) -> Iterator[Problem]:
    """Copies that have deleted records of their sources: otherwise only a failover would show that."""
    copies, unseen = lacking_copies(environment, view)
    for mirror, records, at_most, partitions, why in copies[:MAX_NAMED]:
        topic, target = mirror.topic, mirror.target
        about = f"mirror of {topic} in {target}"
        verify = f"`switchyard mirror verify {topic} --to {target}`"
        if records is None:
            text = f"It has deleted records; how many of them {mirror.source} still has is unknown: {why}."
            causes = f"cluster {mirror.source}", f"cluster {target}"
            yield Problem(_LATER, about, text, f"{verify} tries again.", verify.strip("`"), causes=causes)
            continue
        prefix = "at most " if at_most else ""
        yield Problem(
            _LATER,
            about,
            f"{_LATER}: it has deleted {prefix}{amount(records, 'record')} that {mirror.source} still has, in "
            f"{listed(f'partition {partition}' for partition in partitions)}. A failover to it would lose them.",
            f"{verify} counts them. Compare its retention settings in both clusters (`switchyard mirrors`). For a "
            f"complete copy: `switchyard mirror unlink {topic} --to {target} --delete-copy --reason …`, then link it "
            "anew.",
            verify.strip("`"),
            number=records,
        )
    if (more := len(copies[MAX_NAMED:]) + unseen) > 0:
        text = f"Copies of {amount(more, 'more topic')} may lack records that their sources have."
        yield Problem(_LATER, "mirrors", text, "`switchyard mirror verify TOPIC --sample` counts them.", SEE)


def not_in_sync(environment: Environment) -> Iterator[Problem]:
    """Settings, rights and offsets of mirrors that are not in sync and wait for an operator."""
    looks = synced(environment, environment.store.mirrors())
    stops = [(look, sync_finding) for look in looks for sync_finding in look.findings if sync_finding.stop]
    for look, finding in stops[:MAX_SYNC_PROBLEMS]:
        yield Problem(
            "mirror-not-in-sync",
            f"mirrors of {look.source} in {look.target}",
            f"{finding.about}, {finding.what}: {finding.reason}",
            "Repair that; `switchyard mirror sync` tries again at once.",
            "switchyard mirror sync",
            causes=(f"cluster {look.source}", f"cluster {look.target}"),
        )
    if len(stops) > MAX_SYNC_PROBLEMS:
        text = f"{len(stops) - MAX_SYNC_PROBLEMS} more findings differ from their sources."
        yield Problem("mirror-not-in-sync", "mirrors", text, "`switchyard mirrors` lists them.", SEE)
