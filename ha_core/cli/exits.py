"""Exit codes: one per way in which a caller can react, and the errors that lead to each.

0 is success and nothing else.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ha_core.flows.errors import FlowError, MirrorClientError
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

SUCCESS, FAILURE, BAD_INPUT, UNDONE, OUT_OF_REACH, BUSY, ATTENTION = range(7)
DEFECT = 70
INTERRUPTED, TERMINATED = 130, 143
MEANINGS: Mapping[int, tuple[str, str]] = {
    SUCCESS: ("done", ""),
    FAILURE: (
        "failed, see the text",
        "Something was begun and did not succeed. The text names the present state and the way to continue.",
    ),
    BAD_INPUT: (
        "cannot be done as asked",
        "Not understood, not confirmed, or refused by a verdict. Nothing was changed; repeating it does not help.",
    ),
    UNDONE: ("undone", "It was begun, failed, and was taken back: no fence, no lock, nothing has moved. Try again."),
    OUT_OF_REACH: (
        "out of reach",
        "ZooKeeper, the database, or a required cluster does not answer. Nothing was begun: try again.",
    ),
    BUSY: ("busy", "Another operation holds the locks. Nothing was changed: try again when it has ended."),
    ATTENTION: (
        "something waits for a human",
        "A check has found problems (`status --check`, `origins check`, `mirror verify`).",
    ),
    DEFECT: ("a defect", "A defect of the command: `--debug` shows where."),
    INTERRUPTED: ("interrupted", "SIGINT. A move lifts its fence first."),
    TERMINATED: ("terminated", "SIGTERM. A move lifts its fence first."),
}
"""Exit code → short text for `--help`, and the meaning, as `docs/commands.md` lists it."""
IN_SHORT = f"Exit codes: {'; '.join(f'{code} {short}' for code, (short, _) in MEANINGS.items())}."


_FAILURES: tuple[tuple[tuple[type[Exception], ...], int, str], ...] = (
    ((LockedError,), BUSY, "refused"),
    ((StoreUnavailableError, DatabaseAwayError), OUT_OF_REACH, "refused"),
    ((PlatformError, QuotaNameTakenError, QuotaPublishedError), BAD_INPUT, "refused"),
    ((FlowError,), BAD_INPUT, "refused"),
    ((MirrorClientError,), OUT_OF_REACH, "failed"),
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
