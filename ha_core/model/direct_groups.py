"""Direct groups: consumer groups that read and commit past the gateways."""

from pydantic import Field

from ha_core.model.document import Document

MAX_PATTERNS = 100
"""Maximum number of patterns: on each connection a gateway compares each requested group with all of them once."""


class DirectGroups(Document):
    """`/direct_groups/{pattern}`: groups whose commits are physical offsets of the cluster that holds them.

    All other groups commit client offsets. A coordinator stores one number per partition of a group, and the number
    does not show its kind. So the group's name decides: gateways refuse direct groups, and mirrors translate their
    commits by their maps.
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
