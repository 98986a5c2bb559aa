"""One table from errors to what the operator reads, the exit code and the machine form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ha_core.bindings_file import DeclaredError
from ha_core.cli.exits import BAD_INPUT, BUSY, DEFECT, FAILURE, OUT_OF_REACH
from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, SecurityProfileError
from ha_core.model import UnreadableDocumentError
from ha_core.operations.errors import MoveError, RefusedError
from ha_core.plan.move import MoveDamagedError
from ha_core.plan.verdict import Verdict
from ha_core.store.errors import LockedError, NoStateError, StillHeldError, StoreError, StoreUnavailableError


def failure(error: Exception) -> tuple[str, int, dict[str, Any]]:
    """Text, exit code (`exits`) and further JSON keys of `error`."""
    if isinstance(error, RefusedError):
        verdicts = [{"level": v.level, "about": v.about, "text": v.text, "remedy": v.remedy} for v in error.verdicts]
        code = BUSY if isinstance(error.__cause__, LockedError | StillHeldError) else refusal_code(error.verdicts)
        return str(error), code, {"result": "refused", **({"verdicts": verdicts} if verdicts else {})}
    if isinstance(error, LockedError):
        return str(error), BUSY, {"result": "refused"}
    if isinstance(error, StoreUnavailableError):
        return str(error), OUT_OF_REACH, {"result": "refused"}
    if isinstance(error, ClusterUnreachableError):
        return str(error), OUT_OF_REACH, {"result": "failed"}
    if isinstance(error, DeclaredError | SecurityProfileError | NoStateError):
        return str(error), BAD_INPUT, {"result": "refused"}
    if isinstance(error, MoveError | MoveDamagedError | StoreError | KafkaAdminError | UnreadableDocumentError):
        return str(error), FAILURE, {"result": "failed"}
    words = " ".join(str(error).split()) or "no further words"
    return (
        f"{type(error).__name__}: {words}. Run it again with --debug for the traceback.",
        DEFECT,
        {"result": "failed"},
    )


def refusal_code(verdicts: Iterable[Verdict]) -> int:
    """Of a refusal: waiting may help where every error says so, and only there."""
    causes = {verdict.cause for verdict in verdicts if verdict.level == "error"}
    if causes == {"busy"}:
        return BUSY
    return OUT_OF_REACH if causes == {"away"} else BAD_INPUT
