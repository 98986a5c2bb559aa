"""One table from errors to what the operator reads, the exit code and the machine form."""

from __future__ import annotations

from typing import Any

from ha_core.bindings_file import DeclaredError
from ha_core.cli.exits import BAD_INPUT, FAILURE
from ha_core.kafka.errors import KafkaAdminError, SecurityProfileError
from ha_core.model import UnreadableDocumentError
from ha_core.moves.errors import MoveError, RefusedError
from ha_core.plan.move import MoveDamagedError
from ha_core.store.errors import LockedError, StoreError, StoreUnavailableError


def failure(error: Exception) -> tuple[str, int, dict[str, Any]]:
    """Text, exit code and further JSON keys of `error`. Code 2 says that nothing was changed."""
    if isinstance(error, RefusedError):
        verdicts = [{"level": v.level, "about": v.about, "text": v.text, "remedy": v.remedy} for v in error.verdicts]
        return str(error), BAD_INPUT, {"result": "refused", **({"verdicts": verdicts} if verdicts else {})}
    if isinstance(error, DeclaredError | SecurityProfileError | LockedError | StoreUnavailableError):
        return str(error), BAD_INPUT, {"result": "refused"}
    if isinstance(error, MoveError | MoveDamagedError | StoreError | KafkaAdminError | UnreadableDocumentError):
        return str(error), FAILURE, {"result": "failed"}
    words = " ".join(str(error).split()) or "no further words"
    return (
        f"{type(error).__name__}: {words}. Run it again with --debug for the traceback.",
        FAILURE,
        {"result": "failed"},
    )
