"""Records that clients have deleted. A copy of their topic may hold them for as long as its own retention."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document


class DeletedRecords(Document):
    """`/deleted_records/{topic}`: written before a gateway confirms a deletion to the client, read at each cut."""

    FOLDER = "/deleted_records"
    PLAIN_BYTES = FEW_BYTES

    name: str = Field(min_length=1)
    below: dict[int, int] = {}
    """partition → client offset: no record below it is served again, whichever cluster the partition moves to."""
