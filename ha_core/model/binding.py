"""Which cluster serves an identity: the four levels of one user."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import Document


class UserBindings(Document):
    """`/bindings/{user}`: every level of one user. Values are cluster names."""

    FOLDER = "/bindings"
    KEY = "user"
    REPLICATED = True

    user: str = Field(min_length=1, max_length=255)
    cluster: str | None = None
    """Level `user`."""
    instances: dict[str, str] = Field(default_factory=dict)
    """Level `user+instance`, by client id."""
    topics: dict[str, str] = Field(default_factory=dict)
    """Level `user#topic`."""
    groups: dict[str, str] = Field(default_factory=dict)
    """Level `user##group`."""

    @property
    def empty(self) -> bool:
        return self.cluster is None and not (self.instances or self.topics or self.groups)
