"""Deletes moved topics on clients' request. Gateways may not run operations, so processes that recover orphans do it.

Several may try at once: the locks of the operation decide, and a second one leaves the request as it is.
"""

from __future__ import annotations

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import DeletionRequest, UnreadableDocumentError
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError, RefusedError
from ha_core.operations.migration.topic_deletion import delete
from ha_core.plan.facts.verdict import Verdict
from ha_core.store.errors import LockedError

TOLD_S = 60.0
"""Time for which a refusal waits for the gateway that asked. Longer than any client waits for it."""


def due(environment: Environment) -> tuple[DeletionRequest, ...]:
    """Requests to be carried out now. Refusals that no gateway has fetched are removed."""
    requests = environment.store.requested_deletions()
    for request in requests:
        if request.refused and environment.age_s(request.at) > TOLD_S:
            environment.store.settle_deletion(request.name)
    return tuple(request for request in requests if not request.refused)


def carry_out(environment: Environment, request: DeletionRequest) -> str:
    """Delete the topic; returns the result in words. A topic locked by another operation is tried again later."""
    store, name = environment.store, request.name
    reason = f"user {request.user} asked gateway {request.gateway} for it (DELETE_TOPICS)"
    try:
        (report,) = delete(environment, [name], reason)
    except LockedError as error:
        return f"topic {name} is not deleted yet: {error}"
    except UnreadableDocumentError as error:
        # Every further try would fail like this one. The client gets neither paths nor names of other clusters.
        why = f"this version cannot read a document about topic {name}; the log of orphan recovery names it"
        store.request_deletion(request.changed(refused="away", why=why))
        return f"topic {name} is not deleted: {error}"
    except (MoveError, KafkaAdminError) as error:
        causes = _causes(error)
        if causes == {"gone"}:
            store.settle_deletion(name)  # an earlier process deleted it, and died before this
            return f"topic {name} is deleted"
        if causes == {"busy"}:
            return f"topic {name} is not deleted yet: {error}"
        asked = isinstance(error, RefusedError) and "away" not in causes
        store.request_deletion(request.changed(refused="asked" if asked else "away", why=str(error)))
        return f"topic {name} is not deleted: {error}"
    store.settle_deletion(name)
    return f"topic {name}: {report.words}"


def _causes(error: MoveError | KafkaAdminError) -> set[str]:
    verdicts: tuple[Verdict, ...] = error.verdicts if isinstance(error, MoveError) else ()
    errors = [one for one in verdicts if one.level == "error"]
    return {"gone" if one.code == "unknown-topic" else one.cause for one in errors}
