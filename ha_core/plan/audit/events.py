"""Ended operations as CloudEvents 1.0 in structured JSON, one in a line. The bytes depend on the operation alone.

`source` and `id` identify an event: an operation ends once. `sequence` (an extension of CloudEvents) is the number of
its seal, so that a receiver sees a gap.
"""

from collections.abc import Mapping
from typing import Any

from ha_core.model.seal import ExportedEvent, SealedOperation, canonical

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
TYPE = "switchyard.operation."
MAX_WHY = 200


def event_of(installation: str, one: SealedOperation) -> dict[str, Any]:
    """:param installation: the cluster id that clients see, different in each installation."""
    operation: Mapping[str, Any] = one.operation or {}
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": one.id,
        "source": f"/switchyard/{installation}",
        "type": f"{TYPE}{operation.get('state') or 'unreadable'}",
        "subject": one.id,
        "datacontenttype": "application/json",
        "data": {"operation": one.operation, "history": list(one.history)},
    }
    if ended := operation.get("ended"):
        event["time"] = ended
    if one.seal is not None:
        event["sequence"] = f"{one.seal.number:020d}"  # compared as text
        event["data"]["seal"] = one.seal.model_dump(mode="json", exclude_none=True, by_alias=True)
    return event


def line_of(event: Mapping[str, Any]) -> bytes:
    """Without the line's end."""
    return canonical(event)


def read_line(line: str) -> SealedOperation:
    """:raises ValueError: it is no exported event."""
    try:
        event = ExportedEvent.model_validate_json(line)
    except ValueError as error:
        first = " ".join(str(error).split())[:MAX_WHY]
        raise ValueError(f"it is no event of `switchyard history export --ndjson`: {first}") from error
    return SealedOperation(event.id, event.data.operation, event.data.history, event.data.seal)
