"""Deleting what an aged migration has left behind, under the locks of the topics: a move back may be about to begin."""

from __future__ import annotations

from collections.abc import Collection

from ha_core.kafka.admin import Admin
from ha_core.model import Operation, Topic
from ha_core.operations.context import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.journal import Journal, new_operation_id
from ha_core.operations.report import Report, step_times

DELETE_S = 60.0


def delete_left_behind(
    environment: Environment, admin: Admin, names: Collection[str], reason: str
) -> tuple[Report, tuple[str, ...]]:
    """Delete the topics `names` in one cluster, where no map refers to it and no record is left.

    :raises LockedError: another operation works on one of them. Nothing was deleted.
    :raises RefusedError: a map refers to the cluster again. Nothing was deleted.
    :raises TopicNotEmptyError: one of them holds records. Nothing was deleted.
    """
    store, cluster, now = environment.store, admin.cluster.name, environment.now()
    operation = Operation(
        id=new_operation_id("age", now), kind="age", state="running", by=environment.by, reason=reason, started=now
    )
    epoch = store.create_operation(operation, [f"topic:{name}" for name in names])
    journal = Journal(environment, operation, epoch)
    try:
        with store.hold(operation.id, epoch), journal.step("delete") as seen:
            seen.update(cluster=cluster, topics=sorted(names))
            _require_left_behind(environment, cluster, names)
            # Deleted is deleted: whoever finds the operation from here on can only end it.
            journal.update(state="cut")
            deleted = admin.delete_drained_topics(names, journal.still_ours, timeout_s=DELETE_S)
            seen["deleted"] = list(deleted)
    except BaseException:
        journal.finish("failed", "not all of it was deleted: see the history")
        raise
    journal.finish("succeeded", f"deleted in {cluster}: {', '.join(deleted) or 'nothing'}")
    return Report(operation.id, "succeeded", 0, step_times(store.history(operation.id))), deleted


def _require_left_behind(environment: Environment, cluster: str, names: Collection[str]) -> None:
    for name in names:
        stored = environment.store.read(Topic, name)
        if stored is None or _refers(stored[0], cluster):
            raise RefusedError(f"Topic {name} is not deleted in {cluster}: its map has changed meanwhile.")


def _refers(topic: Topic, cluster: str) -> bool:
    return topic.writer == cluster or any(
        extent.cluster == cluster for extents in topic.partitions.values() for extent in extents
    )
