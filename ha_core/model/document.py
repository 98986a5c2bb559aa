"""What every document in ZooKeeper shares: frozen, typed, versioned by a `schema` field."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class UnreadableDocumentError(ValueError):
    """A stored document that this version cannot read. Readers keep the last good state and raise an alarm."""


class Part(BaseModel):
    """What documents are made of.

    Fields that this version does not know are kept, here and in documents, and written again: a newer version has put
    them there, and whoever rewrites a document for a reason of its own must not take them away.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    def changed(self, **fields: Any) -> Self:
        """The same with these values, which nobody checks against the types.

        :raises TypeError: it has no such field.
        """
        if unknown := fields.keys() - type(self).model_fields.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        return self.model_copy(update=fields)


FEW_BYTES = 1024
"""Of JSON: about seven partitions of two extents. What is not longer stays readable in a ZooKeeper shell, and would
gain little by being compressed: a node costs some 200 bytes of a revision besides its data. A map of 50 partitions
becomes a fourth to a seventh, for a tenth of the time that it takes to parse."""
DOCUMENT_KINDS: dict[str, type[Document]] = {}
"""Folder → the documents that lie there."""


class Document(Part):
    """A JSON document of the state tree. A kind of documents is a class that says where it lies, and nothing else.

    Unknown fields are nothing to stumble over, so an older reader survives a newer writer; a higher `schema` is
    refused, because the meaning of what is known may have changed. So it is never rewritten either.
    """

    model_config = ConfigDict(populate_by_name=True)
    SCHEMA: ClassVar[int] = 1
    FOLDER: ClassVar[str] = ""
    """Below the root; empty: it has no folder of its own."""
    KEY: ClassVar[str] = "name"
    """The attribute by which the tree knows it, any text that is not empty."""
    REVISED: ClassVar[bool] = False
    """It is changed by revisions (`Change`)."""
    REPLICATED: ClassVar[bool] = False
    """Gateways have it before them: it is part of the `View`, and so it is `REVISED`."""
    PLAIN_BYTES: ClassVar[int | None] = None
    """Longer JSON is compressed: of what grows with partitions."""

    schema_: int = Field(default=1, alias="schema")

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "FOLDER" in vars(cls):
            DOCUMENT_KINDS[cls.FOLDER] = cls

    def to_bytes(self) -> bytes:
        """The document as stored: compact JSON, UTF-8."""
        return self.model_dump_json(exclude_none=True, by_alias=True).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """:raises ValidationError: not JSON, or against the types."""
        return cls.model_validate_json(data)

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Self:
        """Parse what is stored at `path`.

        :raises UnreadableDocumentError: not JSON, of a newer schema, or against the types.
        """
        try:
            document = cls.parse(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise UnreadableDocumentError(f"{path}: {where}: {first['msg']}") from error
        if document.schema_ > cls.SCHEMA:
            raise UnreadableDocumentError(
                f"{path}: schema {document.schema_} is newer than {cls.SCHEMA}, the newest that this version reads"
            )
        return document
