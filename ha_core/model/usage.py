"""Usage: the topics and groups that identities use. The closure of a move is computed from it."""

import re
from datetime import datetime, timedelta
from typing import Literal

from ha_core.model.document import Document, Part

SEEN_AGAIN = timedelta(hours=6)
"""Interval at which gateways record again what each open connection uses."""
REWRITTEN_AFTER = timedelta(hours=3)
"""A use is written again only when its stored time is this much older."""
LIVE_WITHIN = timedelta(days=1)
"""A live use was seen within this: longer than `SEEN_AGAIN`, `REWRITTEN_AFTER` and queues together."""
FAMILY = 5
"""From this many instances of a topic on, ids that differ only in numbers may be one client with new ids at starts."""
MAX_USERS = 20_000
"""Bound on users with usage. Without a login, names come from the wire, and each is a ZooKeeper node."""

_PARTS_OF_EACH_START = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=[0-9a-f]*[0-9])[0-9a-f]{8,}|[0-9]+",
    re.IGNORECASE,
)


class Use(Part):
    """Use of a topic or group by one user and instance."""

    instance: str = ""
    how: Literal["produce", "fetch", "commit", "join", "declared"]
    since: str
    """First seen, or declared: UTC, ISO 8601."""
    last: str | None = None
    """Last seen, with a delay of some hours; None: declared, or recorded before this field existed."""
    software: str | None = None
    """`NAME/VERSION` that the client last reported (KIP-511, from Kafka 2.4 on); None: it reports none."""

    def idle(self, now: datetime) -> timedelta | None:
        """Time since it was last seen; None: not known, or declared."""
        if self.last is None or self.how == "declared":
            return None
        try:
            return now - datetime.fromisoformat(self.last)
        except (ValueError, TypeError):
            return None

    @property
    def family(self) -> str:
        """The instance with `*` for each part that may change at each start: numbers, times, UUIDs."""
        return _PARTS_OF_EACH_START.sub("*", self.instance)


class Usage(Document):
    """`/usage/{user}`: declared uses, and those that gateways have seen (bounded)."""

    FOLDER = "/usage"
    KEY = "user"

    user: str
    topics: dict[str, tuple[Use, ...]] = {}
    groups: dict[str, tuple[Use, ...]] = {}

    @property
    def empty(self) -> bool:
        return not (self.topics or self.groups)
