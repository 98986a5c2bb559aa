"""Access rules that a mirror has brought to its target: only these may it take away again."""

from typing import NamedTuple

from ha_core.model.document import FEW_BYTES, Document

MAX_BROUGHT = 5_000
"""Rules of a topic. Those beyond are not recorded, and never removed."""


class BroughtRule(NamedTuple):
    """A rule for the topic alone (`literal`)."""

    principal: str
    host: str
    operation: int
    """Kafka's number."""
    allows: bool


class BroughtRights(Document):
    """`/brought_rights/{topic}@{target}`: rules that syncs of a mirror have added in its target. No revision: each pass
    adds what it has brought, and drops what is gone."""

    FOLDER = "/brought_rights"
    KEY = "key"
    PLAIN_BYTES = FEW_BYTES

    key: str
    """Key of the mirror."""
    link: str
    """Link id of the mirror. Rules that an earlier mirror has brought are the target's own, which may have been the
    writer since."""
    rules: tuple[BroughtRule, ...] = ()
