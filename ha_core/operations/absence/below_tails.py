"""Below its tail a cluster that is back should have what its copy has: the records that were mirrored.

It need not: an unclean leader, a disk that was restored, or somebody who writes past the gateways leave a log that is
long enough and has other records. As the standby it would be believed. So both are compared, before its mirror is
turned round, by the notes of the copiers that had filled the copy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.verifying import MirrorEnd, plan_ended
from ha_core.model import LostTail, Mirror
from ha_core.model.operation import Verify
from ha_core.operations.copies.comparing import SAMPLE_S, MirrorsCompared, PlannedComparison, compare_all, coverage
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment


def compare_below(
    environment: Environment,
    cluster: Admin,
    old: Mirror,
    tail: LostTail,
    bases: Mapping[int, int],
    partitions: Collection[int],
    verify: Verify,
) -> MirrorsCompared:
    """From where the log of `cluster` starts up to where it was mirrored. Changes nothing.

    :param old: the mirror that was cut off.
    :param bases: partition → the first offset that the copy got as the writer.
    :param partitions: those that are compared, of the ones in `bases`.
    :param verify: not `none`. A sample takes no longer than `SAMPLE_S`, and is the same each time.
    :raises KafkaAdminError: a cluster does not answer.
    :raises CopyDamagedError: the notes do not say what was copied.
    """
    extent = coverage(verify, tail.key)
    ended = {p: MirrorEnd(tail.partitions[p].mirrored, bases[p]) for p in partitions}
    writer = admin_of(environment, tail.target)
    planned = [PlannedComparison(old, cluster, writer, one) for one in plan_ended(cluster, writer, old, ended, extent)]
    within_s = SAMPLE_S if verify == "sample" else None
    return MirrorsCompared(extent, compare_all(environment, planned, extent.seed, within_s))
