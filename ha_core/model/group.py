"""A consumer group that is moving, or has moved, to another cluster with its members."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import Document, Part
from ha_core.model.topic import Fence


class Member(Part):
    """A member in one coordinator."""

    member_id: str
    generation: int


class Group(Document):
    """`/groups/{name}`.

    Each coordinator assigns its own member ids and generations. So that live members notice nothing, the move joins
    the group in the target on their behalf, with their assignments, and `aliases` maps members of the origin to those
    of the target. Gateways rewrite until the next rebalance.
    """

    FOLDER = "/groups"
    REPLICATED = True

    name: str = Field(min_length=1, max_length=255)
    cluster: str | None = None
    """Cluster of the aliases' coordinator; None while there is only a fence."""
    aliases: dict[str, Member] = {}
    """`{generation}:{member id}` as the client sends it → the member in `cluster`."""
    fence: Fence | None = None

    @property
    def mapped(self) -> bool:
        return self.cluster is not None

    @property
    def fenced_by(self) -> str | None:
        return None if self.fence is None else self.fence.operation

    @property
    def unfenced(self) -> Group:
        return self.changed(fence=None)
