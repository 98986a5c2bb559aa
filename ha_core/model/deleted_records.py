"""Records that clients have deleted. A copy of the topic may hold them until its own retention deletes them."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document


class DeletedRecords(Document):
    """`/deleted_records/{topic}`: written before a gateway confirms a deletion to the client, read at each cut."""

    FOLDER = "/deleted_records"
    PLAIN_BYTES = FEW_BYTES

    name: str = Field(min_length=1)
    below: dict[int, int] = {}
    """partition → client offset below which no record is served again, in any cluster that the partition moves to."""
