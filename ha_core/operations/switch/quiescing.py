"""Before the fence: open transactions end, and none begins in what moves.

Behind a fence an open transaction could not end: its records are refused, and the cut waits for it. So where leaders
remember transactional producers, a transaction fence comes first. Producers without transactions do not notice it.
"""

from __future__ import annotations

from ha_core.operations.documents import Touched
from ha_core.operations.errors import StepFailedError
from ha_core.operations.gateways import drained, name_them
from ha_core.operations.journal import Journal, Stopwatch
from ha_core.operations.sides import adopted_of, asked
from ha_core.operations.switch.targets import still_adopted
from ha_core.operations.switch.window import Window
from ha_core.plan.move import quiesce_change

PAUSE_S = 0.02
KEEP_ALIVE_S = 3.0
"""How often adopted members are kept alive meanwhile: as often as clients do it by default."""
NAMED = 5


def quiesce(journal: Journal, touched: Touched, window: Window, watch: Stopwatch) -> None:
    """Fence transactions, and wait until no transaction is open in what moves. Without any, nothing is done.

    :raises StepFailedError: a transaction stays open for the drain timeout; the transaction fence has to be lifted.
    """
    topics = {topic for topic, _ in window.transactional()}
    if not topics:
        return
    with watch.lap("quiesce") as seen:
        documents = quiesce_change(journal.operation, touched.view, topics)
        revision = touched.commit(journal, documents, "quiesce")
        seen.update(revision=revision, topics=len(topics))
        _wait(journal, window, revision)


def _wait(journal: Journal, window: Window, revision: int) -> None:
    """Gateways tell of transactions that have not written yet; the origin of those that no gateway has seen begin."""
    environment, operation = journal.environment, journal.operation
    request, _ = asked(operation)
    reached = drained(revision, operation.id)
    begun = alive_at = environment.monotonic()
    while True:
        behind = tuple(gateway for gateway in environment.store.gateways() if not reached(gateway))
        found = {} if behind else window.open_transactions()
        if not behind and not found:
            return
        now = environment.monotonic()
        if now - begun >= request.drain_timeout_s:
            named = [f"{t}-{p} (producer {one.producer_id})" for (t, p), open_in in found.items() for one in open_in]
            where = ", ".join(named[:NAMED]) or f"as these gateways see it: {name_them(behind)}"
            raise StepFailedError(
                f"Transactions stay open in cluster {request.origin} for more than {request.drain_timeout_s:g} s: "
                f"{where}. Let them end, or give the move a --drain-timeout that is longer than they take. One whose "
                "producer is gone is aborted by its coordinator after the producer's transaction.timeout.ms."
            )
        if now - alive_at > KEEP_ALIVE_S and window.origin is not None:
            still_adopted(window.origin, window.target, adopted_of(operation))
            alive_at = now
        environment.sleep(PAUSE_S)
