"""The process that recovers orphans on behalf of a gateway: `python -m
ha_core.operations.running.orphan_recovery_process`.

It also deletes moved topics on clients' request, which no gateway does by itself.

It may be killed in the middle of a step, which the next one repeats. Each line of standard output has the result of an
operation, or is a sign of life.
"""

import logging
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.helper_process import say, serve
from ha_core.operations.engine.orphan_recovery import OrphanRecovery
from ha_core.operations.migration import topic_deletion
from ha_core.operations.proposal.usage import expire_usage
from ha_core.operations.running import engine
from ha_core.store.errors import StoreError

EVERY_S = 0.4
EXPIRES_EVERY_S = 12 * 3600.0
FIRST_EXPIRY_S = 600.0
"""After the start: gateways that begin have more to do."""
SAY_EVERY_S = 10.0
AT_ONCE = 5
"""Operations that are continued in parallel: one may wait for a gateway or for a cluster, and one thread is for expiry
of usage."""
_log = logging.getLogger(__name__)


def recover_always(environment: Environment, _message: dict[str, Any]) -> None:
    """Look repeatedly, without end; ZooKeeper may be away for a while."""
    recovery = OrphanRecovery(environment)
    busy: dict[str, Future[str]] = {}
    deleting: dict[str, Future[str]] = {}
    said_at = float("-inf")
    expires_at = time.monotonic() + FIRST_EXPIRY_S
    expiring: Future[int] | None = None
    with ThreadPoolExecutor(AT_ONCE, "care") as pool:
        while True:
            try:
                due = recovery.find()
                requests = topic_deletion.requested(environment)
            except StoreError as error:
                _log.warning("operations could not be looked at: %s", error)
                due, requests = (), ()
            for name in due:
                if name not in busy:
                    busy[name] = pool.submit(engine.resume_orphan, recovery, name)
            for request in requests:
                if request.name not in deleting:
                    deleting[request.name] = pool.submit(topic_deletion.delete_requested, environment, request)
            for name in [name for name, work in deleting.items() if work.done()]:
                say(topic=name, outcome=_outcome(deleting.pop(name)))
            for name in [name for name, work in busy.items() if work.done()]:
                say(operation=name, outcome=_outcome(busy.pop(name)))
            if time.monotonic() >= expires_at and expiring is None:
                expiring = pool.submit(expire_usage, environment)
            if expiring is not None and expiring.done():
                if (fault := expiring.exception()) is not None:
                    _log.warning("usage was not expired: %r", fault)
                expires_at, expiring = time.monotonic() + EXPIRES_EVERY_S, None
            if time.monotonic() - said_at >= SAY_EVERY_S:
                said_at = time.monotonic()
                say()
            time.sleep(EVERY_S)


def _outcome(work: Future[str]) -> str:
    error = work.exception()
    return work.result() if error is None else f"cannot be ended: {error!r}"


if __name__ == "__main__":
    sys.exit(serve(recover_always, "orphans are not recovered"))
