"""What identities use: from it follows what a move takes along."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Literal

from ha_core.model.document import Document, Part

SEEN_AGAIN = timedelta(hours=6)
"""Gateways look anew this often at what each open connection uses."""
REWRITTEN_AFTER = timedelta(hours=3)
"""A newer time of the same use is written only when the stored one is this much older."""
LIVE_WITHIN = timedelta(days=1)
"""What a client still uses was seen within it: longer than `SEEN_AGAIN`, `REWRITTEN_AFTER` and queues together."""
FAMILY = 5
"""So many instances of one topic whose ids differ in numbers only may be one client, with an id for each start."""
MAX_USERS = 20_000
"""With uses, in all: names come from the wire where clients need no login, and each is a node of ZooKeeper."""

_PARTS_OF_EACH_START = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=[0-9a-f]*[0-9])[0-9a-f]{8,}|[0-9]+",
    re.IGNORECASE,
)


class Use(Part):
    """Use of a topic or group by one user and instance."""

    instance: str = ""
    how: Literal["produce", "fetch", "commit", "join", "declared"]
    since: str
    """When it was seen first, or declared: UTC, ISO 8601."""
    last: str | None = None
    """When it was seen last, some hours late; None: declared, or noted before this was kept."""
    software: str | None = None
    """`NAME/VERSION` of the client, as it said last (KIP-511, from Kafka 2.4 on); None: it says nothing of itself."""

    def idle(self, now: datetime) -> timedelta | None:
        """For how long it was not seen; None: that is not known, or it is declared."""
        if self.last is None or self.how == "declared":
            return None
        try:
            return now - datetime.fromisoformat(self.last)
        except (ValueError, TypeError):
            return None

    @property
    def family(self) -> str:
        """The instance with `*` for each part that differs from start to start: numbers, times, UUIDs."""
        return _PARTS_OF_EACH_START.sub("*", self.instance)


class Usage(Document):
    """`/usage/{user}`: as declared, and as the gateways have seen it (bounded)."""

    FOLDER = "/usage"
    KEY = "user"

    user: str
    topics: dict[str, tuple[Use, ...]] = {}
    groups: dict[str, tuple[Use, ...]] = {}

    @property
    def empty(self) -> bool:
        return not (self.topics or self.groups)
