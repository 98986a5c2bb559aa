"""Evidence of operations: results of earlier steps that later steps need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import AliasChoices, Field

from ha_core.model.document import Part
from ha_core.model.mirror import Mirror
from ha_core.model.move_request import Verify


class Cut(NamedTuple):
    """The cut of a partition: client offset, the target's own offset there, and the new writer epoch."""

    partition: int
    start: int
    base: int
    writer_epoch: int


@dataclass(frozen=True, slots=True)
class AdoptedGroup:
    """A group joined in the target on its members' behalf."""

    generation: int
    """In the target."""
    origin_generation: int
    """The generation that the members send."""
    members: Mapping[str, str]
    """Member id in the origin → member id in the target."""


class ComparedCopies(Part):
    """Result of comparing copies with their sources before a switch to them."""

    verify: Verify
    records: int
    partitions: int
    ranges: int
    of_ranges: int
    """Source offsets are compared in ranges: those that were compared, some not to their end, and all of them."""
    seed: int
    """Seed of the sample."""
    seconds: float


class DependentGroups(Part):
    """Outcome of moving the groups that read the topics."""

    operations: tuple[str, ...] = ()
    moved: int = 0
    left_out: dict[str, str] = {}
    """Group → why it stays."""
    error: str = ""
    next: str = ""
    """The command that repeats the failed moves."""
    scope: tuple[tuple[str, str], ...] = ()
    """(user, group) whose move failed."""


class Evidence(Part):
    """Results of earlier steps that later steps need. Each kind of operation has its own type."""


class SingleEvidence(Evidence):
    """Evidence of an operation of one revision."""

    about: tuple[str, ...] = ()
    """The first of its lock keys."""
    deletes_in: str = ""
    """The cluster in which it deletes the topics of `topic_ids`. If that is empty, it deletes all topics that it locks,
    and has no revision."""
    topic_ids: dict[str, str] = {}
    """Topics to delete there → their ids at the time of the decision."""
    mirrors: tuple[Mirror, ...] = ()
    """Mirrors to end, as they were."""
    doomed: dict[str, dict[str, str]] = {}
    """`delete` only: topic → cluster that had it at the decision → its id there, empty if brokers have no ids."""
    unasked: tuple[str, ...] = ()
    """Clusters that did not answer then, and may have the topics."""


class MoveEvidence(Evidence):
    """Evidence of every move; dicts and tuples are by topic unless noted."""

    pinned: tuple[str, ...] = ()
    """Topics that the operation has given an identity map."""
    created: tuple[str, ...] = ()
    """Topics that it was about to create in the target."""
    unsettled: tuple[str, ...] = ()
    """Topics whose creation the target has not confirmed: they may still appear."""
    gateways: tuple[str, ...] = ()
    """Ids of the gateways that were live during its preparation."""
    adopted: dict[str, AdoptedGroup] = {}
    """By group."""
    cuts: dict[str, tuple[Cut, ...]] = {}
    unknown_ends: dict[str, tuple[int, ...]] = {}
    """Partitions that were cut without an answer of the origin."""
    holes: dict[str, dict[int, int]] = {}
    """Topic → partition → offsets without a record below its forced cut."""
    origin_ends: dict[str, dict[int, int]] = {}
    """The origin's own offsets at the cut."""
    compared: ComparedCopies | None = None
    """None: no comparison was made."""
    mirrored: tuple[str, ...] = ()
    """Topics that move to their copies, which the operation holds."""
    also_mirrored: dict[str, tuple[Mirror, ...]] = {}
    """Further mirrors of these topics from the origin, at the hold. The cut ends them with its own, and they are
    repointed after it."""
    kept_out: dict[str, str] = {}
    """Key of a further mirror → why it was not repointed."""
    stayed: dict[str, str] = {}
    """Topics that a forced move left in the origin because their copies are damaged → why."""
    ended_mirrors_verified: bool | None = Field(
        default=None, validation_alias=AliasChoices("ended_mirrors_verified", "verified")
    )
    """True: nothing was appended to the origin after a cut that ended mirrors, so it may become a copy. None: the cut
    ended no mirror, or this is not known yet. Named `verified` in earlier versions; means nothing for other cuts."""
    partly: dict[str, str] = {}
    """Topics that continue at the good part of damaged copies → the damage."""
    left_to_origin: dict[str, int] = {}
    """Records in copies that readers get only from the origin, because the map had no room for them."""
    gone_from_copies: dict[str, int] = {}
    """Records that copies had deleted and the origin is known to have: readers get them only there."""
    unset: tuple[str, ...] = ()
    """Topics whose copies became the writer's and lack some settings of their sources."""
    copies_set: bool | None = None
    """True once the copies have these settings: later changes by clients are left alone."""
    ended: dict[str, Mirror] = {}
    """Mirrors of these topics that a planned cut has ended, as they were."""
    groups: DependentGroups | None = None
    direct_groups: str = ""
    """The places that direct groups have got in the target, for people; empty: there were none."""

    @property
    def went_to_copies(self) -> tuple[str, ...]:
        return tuple(name for name in self.mirrored if name not in self.stayed)

    @property
    def further(self) -> tuple[Mirror, ...]:
        """Further mirrors of topics that went to their copies, as they were."""
        return tuple(mirror for name in self.went_to_copies for mirror in self.also_mirrored.get(name, ()))

    @property
    def ended_too(self) -> tuple[Mirror, ...]:
        """Further mirrors that have ended, because they were not repointed."""
        return tuple(mirror for mirror in self.further if mirror.key in self.kept_out)


class PlannedCuts(Part):
    """Inputs that a migration's cuts are chosen by: topic → partition → value, unless noted."""

    rates: dict[str, dict[int, float]] = {}
    """Records per second that a log hardly exceeds."""
    expected: dict[str, dict[int, float]] = {}
    """Records per second expected of a log."""
    rates_from: str = ""
    cut_at: dict[str, dict[int, int]] = {}
    """Cuts that the operator chose."""


class CrossingEvidence(PlannedCuts, MoveEvidence):
    """Further evidence of a migration by a cut ahead, also by topic and partition."""

    batch: int = 0
    opened: str | None = None
    """When the crossing was opened."""
    opened_at: dict[str, dict[int, int]] = {}
    """The origin's log ends then, as client offsets; empty if there are too many to keep."""
    below: dict[str, dict[int, tuple[tuple[int, int, int, int], ...] | None]] = {}
    """Last sequences of producers below reached cuts: id, epoch, last sequence, its time. None: unknown."""
    below_is_full: bool = False
    retreated: tuple[str, ...] = ()
    """Topics that were open when undoing began."""
    went_back: dict[str, tuple[int, ...]] = {}
    """Partitions whose log had reached its cut and was truncated below it: their crossing ended at the cut."""
    remaining: dict[str, tuple[int, ...]] = {}
    """Partitions added meanwhile, which remain in the origin."""
