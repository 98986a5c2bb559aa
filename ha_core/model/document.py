"""What every document in ZooKeeper shares: frozen, typed, versioned by a `schema` field."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class UnreadableDocumentError(ValueError):
    """A stored document that this version cannot read. Readers keep the last good state and raise an alarm."""


class Part(BaseModel):
    """What documents are made of.

    Fields that this version does not know are kept, here and in documents, and written again: a newer version has put
    them there, and whoever rewrites a document for a reason of its own must not take them away.
    """

    model_config = ConfigDict(frozen=True, extra="allow")


class Document(Part):
    """A JSON document of the state tree.

    Unknown fields are nothing to stumble over, so an older reader survives a newer writer; a higher `schema` is
    refused, because the meaning of what is known may have changed. So it is never rewritten either.
    """

    model_config = ConfigDict(populate_by_name=True)
    SCHEMA: ClassVar[int] = 1

    schema_: int = Field(default=1, alias="schema")

    def to_bytes(self) -> bytes:
        """The document as stored: compact JSON, UTF-8."""
        return self.model_dump_json(exclude_none=True, by_alias=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Self:
        """Parse what is stored at `path`.

        :raises UnreadableDocumentError: not JSON, of a newer schema, or against the types.
        """
        try:
            document = cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise UnreadableDocumentError(f"{path}: {where}: {first['msg']}") from error
        if document.schema_ > cls.SCHEMA:
            raise UnreadableDocumentError(
                f"{path}: schema {document.schema_} is newer than {cls.SCHEMA}, the newest that this version reads"
            )
        return document
