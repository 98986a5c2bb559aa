"""Copies that have deleted records that their sources still have: the copy's own log start does not show it.

The last known log starts of both clusters, and the newest runs in copiers' reports, show the copies that may lack
records. Brokers are asked about these copies only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ha_core.kafka.errors import KafkaAdminError, TopicMissingError
from ha_core.kafka.verifying import Coverage, plan_all
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import KnownTopic, Mirror, Run, View
from ha_core.model.mirror import begins_at
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError

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
    """Copies that are known to lack records, by mirror; and the number of candidates that were not examined."""
    some = sorted(_candidates(environment, view), key=lambda mirror: mirror.key)
    routes: dict[tuple[str, str], list[Mirror]] = {}
    for mirror in some[:MAX_MIRRORS]:
        routes.setdefault((mirror.source, mirror.target), []).append(mirror)
    found = [one for route, mirrors in routes.items() for one in _look(environment, route, mirrors)]
    return sorted(found, key=lambda one: one.mirror.key), len(some[MAX_MIRRORS:])


def _candidates(environment: Environment, view: View) -> Iterator[Mirror]:
    standing = [one for one in view.mirrors.values() if one.held is None]
    if not standing:
        return
    known: dict[str, Mapping[str, KnownTopic]] = {}
    for cluster in {side for one in standing for side in (one.source, one.target)}:
        topics = {one.topic for one in standing if cluster in (one.source, one.target)}
        known[cluster] = environment.store.known(KnownTopic, cluster, topics)
    reported = {
        (one.link, one.mirror, partition): copied.runs
        for document in environment.store.follow_mirror_copies().read()
        for one in document.mirrors
        for partition, copied in one.partitions.items()
    }
    for mirror in standing:
        here, there = known[mirror.source].get(mirror.topic), known[mirror.target].get(mirror.topic)
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


def _look(environment: Environment, route: tuple[str, str], mirrors: Collection[Mirror]) -> Iterator[LackingCopy]:
    try:
        source, target = (admin_of(environment, name) for name in route)
        plans = plan_all(source, target, mirrors, _NOTHING)
    except (CopyDamagedError, TopicMissingError) as error:
        if len(mirrors) > 1:
            for mirror in mirrors:
                yield from _look(environment, route, [mirror])
        elif isinstance(error, CopyDamagedError):  # the sync of mirrors reports a missing topic
            yield from (LackingCopy(mirror, None, why=str(error)) for mirror in mirrors)
        return
    except (KafkaAdminError, RefusedError):
        return  # another check reports a cluster that does not answer
    for mirror in mirrors:
        lacking = [one for one in plans[mirror.topic] if one.deleted and not one.outlived]
        if lacking:
            yield LackingCopy(
                mirror,
                sum(one.deleted for one in lacking),
                any(one.compacted.source for one in lacking),
                tuple(one.partition for one in lacking),
            )
