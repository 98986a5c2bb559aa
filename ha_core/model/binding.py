"""Bindings: the cluster that serves an identity, on four levels per user, and the cluster where mirrors are read."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import Document
from ha_core.model.instance import instance_of

NEAREST = "nearest"
"""As `read`: the cluster in the gateway's own zone."""


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
    """Forms of client ids, by name or in full, that strip the parts that libraries add (`model.instance`)."""
    read: str | None = None
    """Cluster from whose copies mirrored topics are read, or `NEAREST`; None: they are read from their writer."""

    @property
    def empty(self) -> bool:
        bound = self.cluster is not None or self.read is not None or self.client_ids
        return not (bound or self.instances or self.topics or self.groups)

    def instance(self, client_id: str) -> str:
        """The instance of this client id; an instance is its own."""
        return instance_of(client_id, self.client_ids)
