"""The copies of a move's mirrored topics: taken from the job, and looked at while nobody writes to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ha_core.kafka.admin import Admin
from ha_core.kafka.takeover import Copy, TakenOver
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import Mirror
from ha_core.operations.environment import Environment
from ha_core.operations.errors import StepFailedError
from ha_core.plan.facts import CopyFacts, Partition
from ha_core.plan.verdict import listed

NOT_BEGUN_S, NO_LOG_S = 2.0, 10.0
"""So long a copy log that is not there is looked for: where the copies are empty, and where they are not. A broker that
has just started does not know every topic yet."""
_LOOK_S = 0.2


def take_over(
    environment: Environment, target: Admin, mirrors: Iterable[Mirror], partitions: Collection[Partition]
) -> dict[Partition, CopyFacts]:
    """How far these copies are, whose copiers are refused from now on. One that nobody has begun is missing.

    :param partitions: of the mirrored topics and maybe of others.
    :raises StepFailedError: a copy holds what no copier can have written, or has lost records; or nobody knows where
        its records come from.
    """
    counts: dict[str, int] = {}
    for topic, _ in partitions:
        counts[topic] = counts.get(topic, 0) + 1
    wanted = [copy for mirror in mirrors for copy in copies_of(mirror, counts.get(mirror.topic, 0))]
    if not wanted:
        return {}
    try:
        found = target.take_over(_begun(environment, target, wanted), whole_map=True)
    except CopyDamagedError as error:
        name = target.cluster.name
        raise StepFailedError(
            f"A copy in {name} cannot be gone on with: {error}. To do without the copies of a topic, end its mirror "
            f"(`switchyard mirror unlink TOPIC --to {name}`), delete the topic there, and start again."
        ) from error
    return {copy.key: _facts(found[copy.id]) for copy in wanted if copy.id in found and found[copy.id].progress}


def _begun(environment: Environment, target: Admin, copies: Sequence[Copy]) -> list[Copy]:
    """Those whose copy log is there. Without it nothing can have been copied: notes come before records.

    :raises StepFailedError: something was, and the log is not there.
    """
    began = environment.monotonic()
    while True:
        logs = target.leaderships({copy.log for copy in copies})
        without = [copy for copy in copies if copy.log not in logs]
        if not without:
            return list(copies)
        ends = target.ends([copy.key for copy in without])
        holding = sorted(key for key, one in ends.items() if one.log_end > 0)
        waited = environment.monotonic() - began
        if not holding and waited >= NOT_BEGUN_S:
            return [copy for copy in copies if copy.log in logs]
        if holding and waited >= NO_LOG_S:
            name = target.cluster.name
            raise StepFailedError(
                f"Copies in {name} hold records, and the log that says where they come from is not there "
                f"({listed({copy.log[0] for copy in without})}): {listed(f'{t}-{p}' for t, p in holding)}. Let all "
                f"brokers of {name} come up. If somebody has deleted the log, end the mirrors (`switchyard mirror "
                f"unlink TOPIC --to {name}`), delete the topics there, and start again."
            )
        environment.sleep(_LOOK_S)


def _facts(found: TakenOver) -> CopyFacts:
    progress = found.progress
    assert progress is not None
    return CopyFacts(progress.source, found.runs, progress.producers, whole=True)
