"""Which cluster serves an identity: the four levels of one user; and where it reads what is mirrored."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import Document

NEAREST = "nearest"
"""In the place of a cluster that is read from: the one in the gateway's own zone."""


class UserBindings(Document):
    """`/bindings/{user}`: every level of one user. Values are cluster names."""

    FOLDER = "/bindings"
    KEY = "user"
    REPLICATED = True

    user: str = Field(min_length=1, max_length=255)
    cluster: str | None = None
    """Level `user`."""
    instances: dict[str, str] = {}
    """Level `user+instance`, by client id."""
    topics: dict[str, str] = {}
    """Level `user#topic`."""
    groups: dict[str, str] = {}
    """Level `user##group`."""
    read: str | None = None
    """Where mirrored topics are read: a cluster that has a copy, or `NEAREST`; None: where they are written."""

    @property
    def empty(self) -> bool:
        return self.cluster is None and self.read is None and not (self.instances or self.topics or self.groups)
