"""Records that clients have had deleted: a copy of their topic may hold them for as long as its own retention says."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document


class DeletedRecords(Document):
    """`/deleted_records/{topic}`: written before a client is told that its records are deleted, read at each cut."""

    FOLDER = "/deleted_records"
    PLAIN_BYTES = FEW_BYTES

    name: str = Field(min_length=1)
    below: dict[int, int] = {}
    """partition → client offset: no record below it is ever served again, wherever the partition goes on."""
