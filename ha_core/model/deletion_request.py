"""A client's wish that a moved topic is deleted: a gateway writes it down, and a caretaker of operations fulfils it."""

from __future__ import annotations

from typing import Literal

from ha_core.model.document import Document

Refused = Literal["", "asked", "away"]


class DeletionRequest(Document):
    """`/deletion_requests/{topic}`: there until the topic is deleted, or its client was told why it is not."""

    FOLDER = "/deletion_requests"

    name: str
    user: str
    """Who asked for it, and may delete it."""
    gateway: str
    at: str
    """UTC, ISO 8601."""
    refused: Refused = ""
    """What was asked for cannot be, or a cluster does not answer. Empty: it is still to be done."""
    why: str = ""
