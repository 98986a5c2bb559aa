"""The way back from before the cut: fences first, because clients wait for them; then what is only in the target."""

from __future__ import annotations

from ha_core.kafka.errors import KafkaAdminError
from ha_core.operations.errors import MoveError, RefusedError
from ha_core.operations.journal import Journal
from ha_core.operations.revisions import Touched
from ha_core.operations.sides import admin_of, asked, in_target
from ha_core.operations.switch.targets import unpin
from ha_core.plan.move import undo_change


def undo_all(journal: Journal) -> None:
    """Lift the fences, take adopted members out, delete created topics that are still empty, then the maps that kept
    everybody away from them. May be repeated.

    What cannot be taken back in the target (it may be out of reach) is said and written down: it harms nobody.

    :raises MoveDamagedError: the operation has cut.
    """
    environment = journal.environment
    before = environment.monotonic()
    touched = Touched.read(journal)
    documents = undo_change(journal.operation, touched.view)
    revision = touched.commit(journal, documents, "undo")
    journal.write_pending()
    fences = len(documents.puts) - 1 + len(documents.deletes)
    ms = (environment.monotonic() - before) * 1000
    journal.append("lift", "undone", ms, {"fences": fences, "revision": revision})
    environment.say(f"lift {ms:.1f} ms ({fences} fences, revision {revision})")
    _leave(journal)
    take_back(journal)


def _leave(journal: Journal) -> None:
    request, _ = asked(journal.operation)
    adopted = journal.operation.move.adopted
    if not adopted:
        return
    before = journal.environment.monotonic()
    try:
        target = admin_of(journal.environment, request.target)
        for name, one in adopted.items():
            target.leave(in_target(name, one))
    except (KafkaAdminError, MoveError) as error:
        _say_left(journal, "leave", f"adopted members may stay in {request.target} until their session ends: {error}")
        return
    journal.append("leave", "undone", (journal.environment.monotonic() - before) * 1000, {"groups": sorted(adopted)})


def take_back(journal: Journal) -> None:
    """What the preparation has made. The maps go last, and only where no copy is left."""
    _discard(journal)
    unpin(journal)


def _discard(journal: Journal) -> None:
    request, _ = asked(journal.operation)
    created = journal.operation.move.created
    if not created:
        return
    before = journal.environment.monotonic()
    try:
        deleted = admin_of(journal.environment, request.target).delete_empty_topics(created, journal.still_ours)
    except (KafkaAdminError, RefusedError) as error:
        _say_left(journal, "discard", f"created topics may stay in {request.target} ({', '.join(created)}): {error}")
        return
    journal.append("discard", "undone", (journal.environment.monotonic() - before) * 1000, {"deleted": list(deleted)})


def _say_left(journal: Journal, step: str, text: str) -> None:
    journal.environment.say(text)
    journal.append(step, "note", detail={"left": text})
