"""Parameters of a move, and the topics and groups that it takes along."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import AliasChoices, Field

from ha_core.model.document import Part
from ha_core.model.scope import Scope

Mode = Literal["planned", "forced"]
UnreadPolicy = Literal["wait", "skip"]
DamagedCopies = Literal["refuse", "leave", "good-part"]
Verify = Literal["none", "sample", "full"]
"""How much of the copies a switch compares with their sources before it uses them. `sample`: a tenth of each partition,
for half a minute at most. `full`: everything, which takes as long as reading both clusters."""
CutMode = Literal["barrier", "predicted"]
GroupsChoice = Literal["leave", "move"]


class MoveRequest(Part):
    """Parameters of a switch, as given by the operator."""

    COPIES: ClassVar[bool] = False
    """Whether the topics in the target are copies."""

    scope: Scope
    origin: str
    target: str
    mode: Mode = "planned"
    reason: str = Field(min_length=1)
    drain_timeout_s: float = Field(default=10.0, gt=0, le=600)
    include_other_users: bool = Field(
        default=False, validation_alias=AliasChoices("include_other_users", "include_followers")
    )
    """Topics that identities outside the scope use too: False refuses the move, True takes these users along.

    `include_followers`: name before 2026-11."""
    unread: UnreadPolicy | None = None
    """Forced only, and required there: what readers below the cut do while the origin is away."""
    max_rate_records_s: int | None = Field(default=None, ge=1, le=10_000_000)
    """Forced only: the operator's bound on records per second and partition of the origin, which lowers the cut. None:
    more than any leader can append."""
    force: bool = False
    """Forced only: treat the origin as dead although it answers."""
    warn_lag_records: int = Field(default=100_000, ge=0)
    warn_lag_ms: int = Field(default=60_000, ge=0)
    """Mirrored topics: a higher lag, summed over all partitions (records) or in the worst one (ms), gives a warning."""
    refuse_lag_records: int | None = Field(default=None, ge=0)
    refuse_lag_ms: int | None = Field(default=None, ge=0)
    """Likewise, but a higher lag refuses the move; None: any lag is accepted."""
    damaged_copies: DamagedCopies = "refuse"
    """Forced only: treatment of topics whose copies are damaged. `leave`: they stay in the origin, the others move.
    `good-part`: they move to their copies, and readers get the part that is known to be the source's."""
    verify: Verify = "sample"
    """Planned only: how much of mirrored topics is compared before the cut. A difference undoes the move."""
    cut: CutMode = "barrier"
    preparation_s: float = Field(default=300.0, ge=0, le=7 * 86_400)
    """Predicted only: a cut lies as far ahead as the log grows in so many seconds."""
    finish_after_s: float | None = Field(default=None, gt=0)
    """Predicted only: a crossing still open after so many seconds is ended under a fence."""
    settings_left_alone: tuple[str, ...] = ()
    """Settings that are not carried to the target: names or patterns."""
    groups: GroupsChoice = "leave"
    """Migrations only: whether the groups that read the topics move too. If the scope names groups, these do; else all
    readers are looked up and moved after the topics."""


class MoveSet(Part):
    """Everything that a move takes along: the closure over usage."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    reasons: dict[str, str] = {}
    """`topic:NAME` or `group:NAME` → why it moves."""
    left_out: tuple[str, ...] = ()
    """`topic:NAME` or `group:NAME` of the closure that stays, because it is in the target or does not exist."""

    @property
    def keys(self) -> frozenset[str]:
        """`topic:NAME` or `group:NAME` of all that moves."""
        return frozenset([*(f"topic:{name}" for name in self.topics), *(f"group:{name}" for name in self.groups)])
