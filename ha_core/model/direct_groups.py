"""Direct groups: consumer groups that read and commit past the gateways."""

from pydantic import Field

from ha_core.model.document import Document

MAX_PATTERNS = 100
"""Every group request of a client is compared with all of them, once for each connection."""


class DirectGroups(Document):
    """`/direct_groups/{pattern}`: groups whose commits are physical offsets of the cluster that holds them.

    All other groups commit client offsets. A coordinator keeps one number for each partition of a group, and nothing in
    it shows which kind it is. So the name decides: gateways refuse direct groups, and a mirror translates their commits
    by its map.
    """

    FOLDER = "/direct_groups"
    KEY = "pattern"
    REPLICATED = True

    pattern: str = Field(min_length=1, max_length=255)
    """A group's name, or a pattern such as `report-*` (`*`, `?`, `[…]`)."""
    since: str
    """UTC, ISO 8601."""
    by: str
    reason: str = ""
