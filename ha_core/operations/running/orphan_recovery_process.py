"""The process that takes care of operations on behalf of a gateway: `python -m
ha_core.operations.running.orphan_recovery_process`.

It also deletes the moved topics that clients want deleted, which no gateway does by itself.

It may end in the middle of a step, which is taken up by the next one. Each line of standard output says what came of an
operation, or that it still looks.
"""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.helper_process import say, serve
from ha_core.operations.engine.orphan_recovery import OrphanRecovery
from ha_core.operations.migration import requested_deletions
from ha_core.operations.proposal.usage import expire_usage
from ha_core.operations.running import engine
from ha_core.store.errors import StoreError

EVERY_S = 0.4
EXPIRES_EVERY_S = 12 * 3600.0
FIRST_EXPIRY_S = 600.0
"""Behind the start: gateways that begin have more to do."""
SAY_EVERY_S = 10.0
AT_ONCE = 5
"""Operations that are brought to their end side by side: one may wait for a gateway or for a cluster,
and one place is for what is not an operation."""
_log = logging.getLogger(__name__)


def take_care_always(environment: Environment, _told: dict[str, Any]) -> None:
    """Look for ever; ZooKeeper may be away for a while."""
    caretaking = OrphanRecovery(environment)
    busy: dict[str, Future[str]] = {}
    deleting: dict[str, Future[str]] = {}
    said_at = float("-inf")
    expires_at = time.monotonic() + FIRST_EXPIRY_S
    expiring: Future[int] | None = None
    with ThreadPoolExecutor(AT_ONCE, "care") as pool:
        while True:
            try:
                due = caretaking.look()
                asked = requested_deletions.due(environment)
            except StoreError as error:
                _log.warning("not looked: %s", error)
                due, asked = (), ()
            for name in due:
                if name not in busy:
                    busy[name] = pool.submit(engine.attend, caretaking, name)
            for request in asked:
                if request.name not in deleting:
                    deleting[request.name] = pool.submit(requested_deletions.carry_out, environment, request)
            for name in [name for name, work in deleting.items() if work.done()]:
                say(topic=name, outcome=_outcome(deleting.pop(name)))
            for name in [name for name, work in busy.items() if work.done()]:
                say(operation=name, outcome=_outcome(busy.pop(name)))
            if time.monotonic() >= expires_at and expiring is None:
                expiring = pool.submit(expire_usage, environment)
            if expiring is not None and expiring.done():
                if (fault := expiring.exception()) is not None:
                    _log.warning("usage was not looked through: %r", fault)
                expires_at, expiring = time.monotonic() + EXPIRES_EVERY_S, None
            if time.monotonic() - said_at >= SAY_EVERY_S:
                said_at = time.monotonic()
                say()
            time.sleep(EVERY_S)


def _outcome(work: Future[str]) -> str:
    error = work.exception()
    return work.result() if error is None else f"cannot be brought to its end: {error!r}"


if __name__ == "__main__":
    sys.exit(serve(take_care_always, "nobody is taken care of"))
