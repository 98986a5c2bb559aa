"""Identity maps before anything is created in the target, and their end when nothing of it is left (`plan/pinning`)."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Operation
from ha_core.operations.batches import in_batches
from ha_core.operations.documents import Touched
from ha_core.operations.errors import MoveError, StepFailedError
from ha_core.operations.gateways import name_them, serves, wait_for_all
from ha_core.operations.journal import Journal
from ha_core.operations.sides import admin_of, asked
from ha_core.plan.move import Documents
from ha_core.plan.pinning import pin_change, pinned_map, to_pin, unpin_change

SERVED_S = 30.0
"""Longer than the session of a gateway that has stopped; no client waits meanwhile."""


def pin(journal: Journal, partitions: Mapping[str, int]) -> None:
    """Lead everybody to the origin, in topics that no map has led anywhere so far. May be repeated.

    Returns when every live gateway does so, also by maps that are older than the operation.

    :param partitions: topic → how many it has.
    :raises StepFailedError: a gateway does not follow in time.
    """
    environment = journal.environment
    request, _ = asked(journal.operation)
    with journal.step("pin") as seen:
        touched = Touched.read(journal)
        names = [name for name in to_pin(journal.operation, touched.view) if name in partitions]
        maps = [pinned_map(request.origin, name, partitions[name]) for name in names]
        for some in in_batches(maps, {}):
            documents = pin_change(journal.operation, touched.view, {one.name: partitions[one.name] for one in some})
            _commit(journal, touched, documents, "pin")
        revision = environment.store.confirm()
        seen.update(topics=len(names), revision=revision)
        behind = wait_for_all(environment, serves(revision), SERVED_S)
        if behind:
            raise StepFailedError(
                f"These gateways did not serve revision {revision} within {SERVED_S:g} s: {name_them(behind)}. Nothing "
                "was created yet: they would lead clients to the new copies. Look at these gateways, or stop them, "
                "then try again."
            )


def unpin(journal: Journal) -> None:
    """Take the identity maps back where the topic is in the origin only. May be repeated.

    The others stay: a map that says what was true all along harms nobody, and a copy without one is a second topic.
    So do those of topics that were asked for without an answer, by a process that stands still, or of a cluster that
    was too slow: they may be made yet.
    """
    environment = journal.environment
    request, _ = asked(journal.operation)
    pinned: list[str] = journal.operation.evidence.get("pinned", [])
    if not pinned:
        return
    before = environment.monotonic()
    try:
        left = admin_of(environment, request.target).topics(pinned, offsets=False)
    except (KafkaAdminError, MoveError) as error:
        text = f"{request.target} does not say which of the topics it still has, so maps to {request.origin} stay"
        environment.say(f"{text}: {error}")
        journal.append("unpin", "note", detail={"left": f"{text}: {error}"})
        return
    touched = Touched.read(journal)
    kept = {*left, *journal.operation.evidence.get("unsettled", ())}
    alone = [name for name in pinned if name not in kept]
    maps = [topic for name in alone if (topic := touched.view.topics.get(name)) is not None]
    for some in in_batches(maps, {}):
        documents = unpin_change(journal.operation, touched.view, [topic.name for topic in some])
        _commit(journal, touched, documents, "unpin")
    detail = {"topics": len(maps), "kept": sorted(kept.intersection(pinned))}
    journal.append("unpin", "undone", (environment.monotonic() - before) * 1000, detail)


def _commit(journal: Journal, touched: Touched, documents: Documents, step: str) -> None:
    """Under a change id of its own: there may be several revisions."""
    touched.commit(journal, documents, f"{step}.{touched.versions[Operation, journal.operation.id]}")
