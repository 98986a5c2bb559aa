"""Base of all documents in ZooKeeper: frozen, typed, versioned by a `schema` field."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class UnreadableDocumentError(ValueError):
    """A stored document that this version cannot read. Readers keep the last good state and raise an alarm."""


class Part(BaseModel):
    """A part of a document.

    Parts and documents keep fields that this version does not know, and write them again: a newer version has put them
    there, and an older one that rewrites the document for its own reasons must not drop them.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    def changed(self, **fields: Any) -> Self:
        """A copy with these values, which are not validated.

        :raises TypeError: there is no such field.
        """
        if unknown := fields.keys() - type(self).model_fields.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        return self.model_copy(update=fields)


FEW_BYTES = 1024
"""Bytes of JSON of about seven partitions of two extents. Shorter documents stay readable in a ZooKeeper shell, and
compression would gain little: a node costs some 200 bytes of a revision besides its data. A map of 50 partitions
shrinks to a fourth to a seventh, for a tenth of the time that parsing takes."""
DOCUMENT_KINDS: dict[str, type[Document]] = {}
"""Folder → class of its documents."""


class Document(Part):
    """A JSON document of the state tree. Each kind is a class with its folder; nothing else has to be registered.

    Readers accept unknown fields, so an older reader survives a newer writer. They refuse a higher `schema`, because
    the meaning of known fields may have changed; so they never rewrite such a document either.
    """

    model_config = ConfigDict(populate_by_name=True)
    SCHEMA: ClassVar[int] = 1
    FOLDER: ClassVar[str] = ""
    """Below the root; empty: no folder of its own."""
    KEY: ClassVar[str] = "name"
    """The attribute that names its node: any text that is not empty."""
    REVISED: ClassVar[bool] = False
    """Revisions change it (`Change`)."""
    REPLICATED: ClassVar[bool] = False
    """Gateways keep it in memory: it is part of the `View`, and therefore `REVISED`."""
    PLAIN_BYTES: ClassVar[int | None] = None
    """Longer JSON is compressed; for documents that grow with partitions."""

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
        """:raises ValidationError: not JSON, or a field has the wrong type."""
        return cls.model_validate_json(data)

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Self:
        """Parse the node at `path`.

        :raises UnreadableDocumentError: not JSON, of a newer schema, or a field has the wrong type.
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
