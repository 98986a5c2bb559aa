"""Requires that no transaction is open in a log that becomes a copy, or that is written to again.

If a topic leaves a cluster by force during a transaction, only the coordinator ends it, after its timeout. Until then
the marker would be written into a copy; or, if the topic returns, the client could still commit records that no extent
has, and the commit would be acknowledged.
"""

from __future__ import annotations

from collections.abc import Collection

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import StandsInTheWayError, UnsupportedByClusterError
from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.verdict import listed

LOOK_S = 0.1


def require_none_open(
    environment: Environment, admin: Admin, partitions: Collection[Partition], wait_s: float, why: str
) -> None:
    """Wait until no transaction is open. No client may append to these logs meanwhile.

    :param why: the harm that an open one would do.
    :raises StandsInTheWayError: one stays open.
    """
    deadline = environment.monotonic() + wait_s
    while restless := sorted(key for key, ends in admin.ends(partitions).items() if ends.open_transaction):
        if environment.monotonic() >= deadline:
            (topic, partition), named = restless[0], listed(_open(admin, restless))
            raise StandsInTheWayError(
                admin.cluster.name,
                f"a transaction is open in {named}, and {why}. Its coordinator ends it after its producer's "
                f"transaction.timeout.ms; `kafka-transactions.sh --bootstrap-server {admin.cluster.bootstrap} abort "
                f"--topic {topic} --partition {partition} --start-offset OFFSET` ends it at once. Then run this again.",
            )
        environment.sleep(LOOK_S)


def _open(admin: Admin, partitions: Collection[Partition]) -> list[str]:
    """With producers and offsets, if brokers list them (from 2.8 on)."""
    try:
        found = admin.producers(partitions)
    except UnsupportedByClusterError:
        found = {}
    return [
        f"{topic}-{partition}"
        + "".join(
            f" (producer {one.producer_id}, since offset {one.transaction_start_offset})"
            for one in found.get((topic, partition), ())
            if one.in_transaction
        )
        for topic, partition in partitions
    ]
