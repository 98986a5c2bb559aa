"""The copies of a move's mirrored topics: taken over from the job, and read while no copier writes to them."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.takeover import CopyPartition, PartlyDamagedError
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import Mirror, MoveRequest
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError
from ha_core.plan.facts.clusters import CopyFacts, Partition
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import listed
from ha_core.plan.move.step_verdicts import copies_damaged

NOT_BEGUN_S, NO_LOG_S = 2.0, 10.0
"""Time limits for finding a missing copy log: if the copies are empty, and if they are not. A broker that has just
started does not know every topic yet."""
_LOOK_S = 0.2


class Taken(NamedTuple):
    """Progress of copies. A copy that no copier has begun is missing."""

    copies: dict[Partition, CopyFacts]
    damaged: dict[str, str]
    """Topic → why its copy cannot be used: it has records that no copier can have written, has lost records, or the
    source offsets of its records are unknown."""
    partly: dict[str, str]
    """Topic → why its copy is damaged, for copies with a part that is known to be good."""

    def without(self, topics: Collection[str]) -> dict[Partition, CopyFacts]:
        return {key: copy for key, copy in self.copies.items() if key[0] not in topics}


def take_over(
    environment: Environment,
    target: Admin,
    mirrors: Iterable[Mirror],
    partitions: Collection[Partition],
    good_part: bool = False,
) -> Taken:
    """Take these copies over, which fences their copiers, and return their progress.

    :param partitions: those of the mirrored topics, and maybe of others.
    :param good_part: use the part of damaged copies that is known to be good.
    """
    counts: dict[str, int] = {}
    for topic, _ in partitions:
        counts[topic] = counts.get(topic, 0) + 1
    wanted = [copy for mirror in mirrors for copy in copies_of(mirror, counts.get(mirror.topic, 0))]
    taken = Taken({}, {}, {})
    if not wanted:
        return taken
    begun, without_log = begun_copies(environment, target, wanted)
    for (topic, partition), log in sorted(without_log.items()):
        why = f"{topic}-{partition} holds records, and the log with their source offsets ({log}) is not there"
        taken.damaged.setdefault(topic, why)
    found = target.take_over(begun, whole_map=True)
    for copy in begun:
        one, (topic, partition) = found[copy.id], copy.key
        if isinstance(one, PartlyDamagedError):
            taken.partly.setdefault(topic, f"{topic}-{partition}: {one}")
            if good_part:
                one = one.good
        if isinstance(one, CopyDamagedError):
            taken.damaged.setdefault(topic, f"{topic}-{partition}: {one}")
        elif one.progress is not None:
            taken.copies[copy.key] = CopyFacts(one.progress.source, one.runs, one.progress.producers, whole=True)
    return taken


def require_usable(request: MoveRequest, topics: Collection[str], taken: Taken) -> None:
    """:param topics: all topics of the move.
    :raises StepFailedError: a copy is damaged, and its topic may not stay in the origin; or no other topic is left.
    """
    damaged = taken.damaged
    if not damaged or (request.damaged_copies == "leave" and not damaged.keys() >= set(topics)):
        return
    verdicts = copies_damaged(request, damaged, taken.partly, others=not damaged.keys() >= set(topics))
    raise StepFailedError(" ".join(verdict.words for verdict in verdicts), verdicts)


def fence_copiers(environment: Environment, mirrors: Iterable[Mirror]) -> None:
    """Fence the copiers of ended mirrors: a stalled task, or one without a driver, may still copy from stale
    assignments. No process takes the copies over. Clusters that cannot be asked are reported."""
    for name, some in grouped((mirror.target, mirror) for mirror in mirrors).items():
        results: list[tuple[str, Exception] | None]
        try:
            target = admin_of(environment, name)
            there = target.topics([mirror.topic for mirror in some], offsets=False)
            copies = [
                copy
                for mirror in some
                if mirror.topic in there
                for copy in copies_of(mirror, there[mirror.topic].partitions)
            ]
            logs = target.leaderships({copy.log for copy in copies})
            results = list(environment.pool.map(partial(_fence, target), [copy for copy in copies if copy.log in logs]))
        except (KafkaAdminError, RefusedError) as error:
            results = [(mirror.topic, error) for mirror in some]
        if failed := dict(result for result in results if result is not None):
            why = min(map(str, failed.values()))
            environment.say(
                f"the copiers of {listed(failed)} could not be fenced in {name}: {why} A stalled job "
                "may append there when it resumes. Let no client write to the copies before that job has ended."
            )


def _fence(target: Admin, copy: CopyPartition) -> tuple[str, Exception] | None:
    """The topic whose copier could not be fenced, with the error. Failures do not stop the others."""
    try:
        target.fence(copy)
    except KafkaAdminError as error:
        return copy.key[0], error
    return None


def begun_copies(
    environment: Environment, target: Admin, copies: Sequence[CopyPartition]
) -> tuple[list[CopyPartition], dict[Partition, str]]:
    """Copies with a copy log; and copies that have records but no copy log. Without it nothing can have been copied:
    notes come before records."""
    began = environment.monotonic()
    while True:
        logs = target.leaderships({copy.log for copy in copies})
        without = [copy for copy in copies if copy.log not in logs]
        if not without:
            return list(copies), {}
        ends = target.ends([copy.key for copy in without])
        holding = {key for key, one in ends.items() if one.log_end > 0}
        waited = environment.monotonic() - began
        if waited >= (NO_LOG_S if holding else NOT_BEGUN_S):
            lacking = {copy.key: copy.log[0] for copy in without if copy.key in holding}
            return [copy for copy in copies if copy.log in logs], lacking
        environment.sleep(_LOOK_S)
