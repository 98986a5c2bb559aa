"""Pushes ended operations to a receiver, each at least once, in the order of their seals.

No move waits for it: it is a process of its own. A cursor in ZooKeeper says how far the receiver has accepted them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ha_core.model import PushCursor
from ha_core.operations.audit.posting import NotAcceptedError
from ha_core.operations.engine.environment import Environment
from ha_core.plan.audit.events import event_of, line_of

RETRY_AFTER_S = (1.0, 5.0, 15.0)
"""Pauses before the repetitions of one event. After the last one the push ends, and the next goes on there."""
AT_ONCE = 1_000
"""Events of one push at most."""


@dataclass(frozen=True, slots=True)
class PushReport:
    receiver: str
    pushed: int
    through: int
    """Number of the last seal that the receiver has accepted."""
    left: int
    """Seals that it has not accepted yet."""
    error: str = ""


def push(environment: Environment, receiver: str, post: Callable[[bytes], None]) -> PushReport:
    """Push operations that `receiver` has not accepted yet, at most `AT_ONCE`.

    :param receiver: name of the cursor.
    :param post: raises NotAcceptedError.
    """
    store = environment.store
    newest, cursor = store.seal_head().number, store.push_cursor(receiver)
    through = start = max(cursor.through if cursor is not None else 0, store.seal_head().trimmed)
    installation, error = store.cluster_id(), ""
    for one in store.sealed_operations(start, min(newest, start + AT_ONCE)):
        assert one.seal is not None
        try:
            _post(environment, post, line_of(event_of(installation, one)))
        except NotAcceptedError as refused:
            error = f"seal {one.seal.number} (operation {one.id}) was not accepted: {refused}"
            break
        through = one.seal.number
        store.move_push_cursor(PushCursor(receiver=receiver, through=through, at=environment.now()))
    return PushReport(receiver, through - start, through, newest - through, error)


def _post(environment: Environment, post: Callable[[bytes], None], body: bytes) -> None:
    for pause_s in (*RETRY_AFTER_S, None):
        try:
            return post(body)
        except NotAcceptedError as error:
            if pause_s is None or not error.again:
                raise
            environment.say(f"{error}; again in {pause_s:g} s")
            environment.sleep(pause_s)
