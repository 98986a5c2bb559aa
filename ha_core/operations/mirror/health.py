"""Problems of mirrors: those that no job copies, that lack records, or whose settings and groups are not in sync."""

from __future__ import annotations

from collections.abc import Iterator

from ha_core.model import View
from ha_core.operations.clusters.mirrors import mirrors_now, synced
from ha_core.operations.copies.lacking import lacking_copies
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.problem import Problem
from ha_core.plan.facts.verdict import Code, amount, listed

MAX_SYNC_PROBLEMS = 20
MAX_NAMED = 20
BEGINS_S = 60.0
"""The job `mirror` begins with a new mirror within a minute."""
_BEGINS_LATER: Code = "copy-begins-later"


def uncopied_mirrors(environment: Environment) -> Iterator[Problem]:
    """Mirrors that no job copies, and partitions that wait for an operator."""
    found = mirrors_now(environment)
    waiting = [row for row in found.rows if row.state in {"nobody", "stopped", "unreadable"}]
    begun = {(one.topic, one.target) for one in found.mirrors if environment.age_s(one.since) < BEGINS_S}
    lonely = (row for row in waiting if row.state == "nobody" and (row.topic, row.target) not in begun)
    if alone := [f"{row.topic} in {row.target}" for row in lonely]:
        yield Problem(
            "mirrors",
            f"No job copies {listed(alone)}: records written meanwhile are on no standby.",
            "Start the job `mirror` (`python -m spark_jobs mirror`), or look at its log.",
        )
    for row in waiting:
        if row.state == "unreadable":
            yield Problem(
                f"mirror of {row.topic} in {row.target}",
                f"No copier touches it, and none takes it over: {row.reason}.",
                "If a later version wrote it, bring the job and the tools to that version; else restore the document.",
            )
        if row.state == "stopped":
            yield Problem(
                f"mirror of {row.topic}-{row.partition} in {row.target}",
                f"Its copier has stopped: {row.reason}.",
                "Follow the reason: after a refused setting or right the copier retries within a minute. Or end the "
                f"mirror (`switchyard mirror unlink {row.topic} --to {row.target}`), delete the copy, and link it "
                "again.",
            )


def lacking(environment: Environment, view: View) -> Iterator[Problem]:
    """Copies that have deleted records of their sources: otherwise only a failover would show that."""
    found, unseen = lacking_copies(environment, view)
    for mirror, records, at_most, partitions, why in found[:MAX_NAMED]:
        topic, target = mirror.topic, mirror.target
        about = f"mirror of {topic} in {target}"
        verify = f"`switchyard mirror verify {topic} --to {target}`"
        if records is None:
            text = f"It has deleted records; how many of them {mirror.source} still has is unknown: {why}."
            yield Problem(about, text, f"{verify} tries again.", _BEGINS_LATER)
            continue
        most = "at most " if at_most else ""
        yield Problem(
            about,
            f"{_BEGINS_LATER}: it has deleted {most}{amount(records, 'record')} that {mirror.source} still has, in "
            f"{listed(f'partition {one}' for one in partitions)}. A failover to it would lose them.",
            f"{verify} counts them. Compare its retention settings in both clusters (`switchyard mirrors`). For a "
            f"complete copy: `switchyard mirror unlink {topic} --to {target} --delete-copy --reason …`, then link it "
            "anew.",
            _BEGINS_LATER,
            records,
        )
    if (more := len(found[MAX_NAMED:]) + unseen) > 0:
        text = f"Copies of {amount(more, 'more topic')} may lack records that their sources have."
        yield Problem("mirrors", text, "`switchyard mirror verify TOPIC --sample` counts them.", _BEGINS_LATER)


def not_in_sync(environment: Environment) -> Iterator[Problem]:
    """Settings, rights and offsets of mirrors that are not in sync and wait for an operator."""
    looks = synced(environment, environment.store.mirrors())
    stops = [(look, one) for look in looks for one in look.findings if one.stop]
    for look, one in stops[:MAX_SYNC_PROBLEMS]:
        yield Problem(
            f"mirrors of {look.source} in {look.target}",
            f"{one.about}, {one.what}: {one.reason}",
            "Repair that; `switchyard mirror sync` tries again at once.",
        )
    if len(stops) > MAX_SYNC_PROBLEMS:
        text = f"{len(stops) - MAX_SYNC_PROBLEMS} more findings differ from their sources."
        yield Problem("mirrors", text, "`switchyard mirrors` lists them.")
