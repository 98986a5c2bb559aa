"""A client's request to delete a moved topic: a gateway stores it, and an orphan recovery carries it out."""

from __future__ import annotations

from typing import Literal

from ha_core.model.document import Document

Refused = Literal["", "asked", "away"]


class DeletionRequest(Document):
    """`/deletion_requests/{topic}`: exists until the topic is deleted or the client has its refusal."""

    FOLDER = "/deletion_requests"

    name: str
    user: str
    """The user who requested the deletion and has the right to it."""
    gateway: str
    at: str
    """UTC, ISO 8601."""
    refused: Refused = ""
    """`asked`: the deletion is not possible. `away`: a cluster does not answer. Empty: still to be done."""
    why: str = ""
