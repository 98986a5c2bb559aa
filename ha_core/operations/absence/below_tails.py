"""Compares a returned cluster with its copy below its lost tail, where both should have the mirrored records.

They may differ: after an unclean election, a restored disk, or writes past the gateways a log may be long enough and
have other records. As the standby it would be trusted. So both logs are compared before the mirror is reversed, by the
notes of the copiers that filled the copy.
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
    """Compare from the log start of `cluster` up to its mirrored end. Changes nothing.

    :param old: the mirror that was cut off.
    :param bases: partition → the first offset that the copy got as the writer.
    :param partitions: those of `bases` to compare.
    :param verify: not `none`. A sample takes no longer than `SAMPLE_S`, and is the same each time.
    :raises KafkaAdminError: a cluster does not answer.
    :raises CopyDamagedError: the notes do not show which records were copied.
    """
    extent = coverage(verify, tail.key)
    ended = {p: MirrorEnd(tail.partitions[p].mirrored, bases[p]) for p in partitions}
    writer = admin_of(environment, tail.target)
    planned = [PlannedComparison(old, cluster, writer, one) for one in plan_ended(cluster, writer, old, ended, extent)]
    within_s = SAMPLE_S if verify == "sample" else None
    return MirrorsCompared(extent, compare_all(environment, planned, extent.seed, within_s))
