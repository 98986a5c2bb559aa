"""Which cluster serves an identity: the four levels of one user; and where it reads what is mirrored."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import Document
from ha_core.model.instance import instance_of

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
    client_ids: tuple[str, ...] = ()
    """Forms of client ids, by name or in full: they strip what libraries add to an instance (`model.instance`)."""
    read: str | None = None
    """Where mirrored topics are read: a cluster that has a copy, or `NEAREST`; None: where they are written."""

    @property
    def empty(self) -> bool:
        bound = self.cluster is not None or self.read is not None or self.client_ids
        return not (bound or self.instances or self.topics or self.groups)

    def instance(self, client_id: str) -> str:
        """The instance that this client id belongs to; an instance belongs to itself."""
        return instance_of(client_id, self.client_ids)
