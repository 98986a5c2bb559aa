"""A consumer group that is being, or was, carried to another cluster with its members."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import Document, Part
from ha_core.model.topic import Fence


class Member(Part):
    """A member as one coordinator knows it."""

    member_id: str
    generation: int


class Group(Document):
    """`/groups/{name}`.

    Coordinators hand out member ids and generations of their own. So that a live member notices nothing, the move
    joins the group in the target on the members' behalf, with the assignment that they hold, and `aliases` says
    which member of the target a member of the origin has become. Gateways rewrite until the next rebalance.
    """

    FOLDER = "/groups"
    REPLICATED = True

    name: str = Field(min_length=1, max_length=255)
    cluster: str | None = None
    """Coordinator cluster that the aliases lead to; None while there is a fence only."""
    aliases: dict[str, Member] = {}
    """`{generation}:{member id}` as the client says it → the member in `cluster`."""
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
