"""Whether operations may begin that could not be sealed."""

from typing import ClassVar

from ha_core.model.document import Document


class StrictHistory(Document):
    """`/strict_history/seals`: while it exists, no operation begins while seals cannot be written."""

    FOLDER = "/strict_history"
    REVISED = True
    ONLY: ClassVar[str] = "seals"
    """Name of the only one."""

    name: str = "seals"
    since: str
    by: str
    reason: str
