"""Exit codes: one per way in which a caller can react, and the errors that lead to each.

0 is success and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, SecurityProfileError
from ha_core.model import UnreadableDocumentError
from ha_core.operations.access.bindings_file import DeclaredError
from ha_core.operations.engine.errors import MoveError, RefusedError
from ha_core.plan.engine.revision import MoveDamagedError
from ha_core.plan.facts.verdict import Verdict
from ha_core.platform.errors import DatabaseAwayError, PlatformError
from ha_core.store.errors import (
    LockedError,
    NoStateError,
    QuotaNameTakenError,
    QuotaPublishedError,
    StillHeldError,
    StoreError,
    StoreUnavailableError,
)

SUCCESS = 0
FAILURE = 1
"""It began and did not succeed. The text names what remains, and how to go on."""
BAD_INPUT = 2
"""The request cannot be carried out: not understood, not confirmed, or refused by a verdict. Nothing was changed,
and repeating the request does not help."""
UNDONE = 3
"""It began, failed, and was undone: no fence, no lock, and nothing has moved. It can be tried again."""
OUT_OF_REACH = 4
"""ZooKeeper, the database, or a required cluster does not answer. Nothing was begun."""
BUSY = 5
"""Another operation works on it. Nothing was changed; wait for its end."""
ATTENTION = 6
"""A check has found problems that need an operator: `status --check`, `origins check`."""
DEFECT = 70
"""A defect of this program: run it again with --debug."""
IN_SHORT = (
    "Exit codes: 0 done; 1 failed, see the text; 2 cannot be done as asked; 3 undone; 4 out of reach; 5 busy; "
    "6 something waits for a human; 70 a defect."
)


_FAILURES: tuple[tuple[tuple[type[Exception], ...], int, str], ...] = (
    ((LockedError,), BUSY, "refused"),
    ((StoreUnavailableError, DatabaseAwayError), OUT_OF_REACH, "refused"),
    ((PlatformError, QuotaNameTakenError, QuotaPublishedError), BAD_INPUT, "refused"),
    ((NoStateError, DeclaredError, SecurityProfileError), BAD_INPUT, "refused"),
    ((ClusterUnreachableError,), OUT_OF_REACH, "failed"),
    ((MoveError, MoveDamagedError, StoreError, KafkaAdminError, UnreadableDocumentError), FAILURE, "failed"),
)
"""The first match applies."""


def failure(error: Exception) -> tuple[str, int, dict[str, Any]]:
    if isinstance(error, RefusedError):
        code = BUSY if isinstance(error.__cause__, LockedError | StillHeldError) else refusal_code(error.verdicts)
        verdicts = {"verdicts": error.verdicts} if error.verdicts else {}
        return str(error), code, {"result": "refused", **verdicts}
    for kinds, code, result in _FAILURES:
        if isinstance(error, kinds):
            return str(error), code, {"result": result}
    words = " ".join(str(error).split()) or "no further words"
    text = f"{type(error).__name__}: {words}. Run it again with --debug for the traceback."
    return text, DEFECT, {"result": "failed"}


def refusal_code(verdicts: Iterable[Verdict]) -> int:
    """The exit code of a refusal. Waiting helps only if every error has that cause."""
    causes = {verdict.cause for verdict in verdicts if verdict.level == "error"}
    if causes == {"busy"}:
        return BUSY
    return OUT_OF_REACH if causes == {"away"} else BAD_INPUT
