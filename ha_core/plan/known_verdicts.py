"""Pre-flight of a forced move whose origin does not answer: how much is known of it, and how old that is."""

from __future__ import annotations

from collections.abc import Iterator

from ha_core.model import MoveRequest, MoveSet
from ha_core.plan.facts import Facts
from ha_core.plan.verdict import Verdict, duration, listed

OLD_S = 3600.0
"""What is known should be refreshed more often than this."""


def known_verdicts(request: MoveRequest, moves: MoveSet, facts: Facts) -> Iterator[Verdict]:
    """:param moves: what really moves."""
    origin = facts.clusters.get(request.origin)
    if request.mode == "planned" or origin is None or origin.reachable:
        return
    about = f"cluster {request.origin}"
    topics = {name: facts.topic(request.origin, name) for name in moves.topics}
    ages = [one.age_s for one in topics.values() if one is not None and one.age_s is not None]
    unknown = [name for name, one in topics.items() if one is None]
    if ages:
        old = max(ages) >= OLD_S
        yield Verdict(
            "warning" if old else "info",
            about,
            f"What is known of {len(ages)} topics was last seen {duration(max(ages))} ago: shape, settings and log "
            "ends. The cut lies above all that they can have grown by since.",
            "Run the DAG record_facts more often." if old else "",
        )
    if unknown:
        yield Verdict(
            "warning",
            about,
            f"Nothing is known of {listed(f'topic {name}' for name in unknown)}: the cut lies 2^40 offsets further on, "
            "and how much is missing when the cluster returns cannot be said.",
            "Run the DAG record_facts, or `switchyard facts record`, while clusters are healthy.",
        )
    groups = [one for name in moves.groups if (one := facts.group(request.origin, name)) and one.age_s is not None]
    if groups:
        oldest = max(one.age_s or 0.0 for one in groups)
        yield Verdict(
            "info",
            about,
            f"The offsets of {len(groups)} groups are those of {duration(oldest)} ago: what they read since comes "
            "again.",
        )
