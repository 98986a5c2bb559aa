"""What identities use: from it follows what a move takes along."""

from __future__ import annotations

from typing import Literal

from ha_core.model.document import Document, Part


class Use(Part):
    """First use of a topic or group by one user and instance."""

    instance: str = ""
    how: Literal["produce", "fetch", "commit", "join", "declared"]
    since: str
    """UTC, ISO 8601."""
    software: str | None = None
    """`NAME/VERSION` of the client, as it said last (KIP-511, from Kafka 2.4 on); None: it says nothing of itself."""


class Usage(Document):
    """`/usage/{user}`: as declared, and as the gateways have seen it (first uses only, bounded)."""

    FOLDER = "/usage"
    KEY = "user"

    user: str
    topics: dict[str, tuple[Use, ...]] = {}
    groups: dict[str, tuple[Use, ...]] = {}
