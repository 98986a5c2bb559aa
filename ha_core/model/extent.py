"""Extents: one client offset space per partition, for ever, wherever the bytes lie.

Extents of a partition are in client order and half-open; the last one is open and belongs to the writer. What lies
between two extents is a hole, as a compacted log has them. Every function leaves `check` without a problem.

Client offsets and offsets of a cluster (`physical`) are turned into each other here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple, Self

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.dataclasses import dataclass

from ha_core.model.producer import MAX_TERM

MAX_OFFSET = (1 << 63) - 1
"""That the protocol can say."""


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Extent:
    """A run of one partition's client offsets that lives in one cluster.

    Client offset `o` in `[start, end)` is offset `base + (o - start)` there; `end` None means open.
    `term` counts the stays of the writer: 0 for the first cluster, and one more at every cut, for ever. Copied extents
    have the term in which their records were written, so several may share one.

    Each gateway holds all of a fleet, hundreds of thousands: with slots and no model (`Part`), one takes a sixth.
    """

    cluster: str
    start: int = Field(ge=0)
    end: int | None = None
    base: int = Field(ge=0)
    term: int = Field(ge=0)
    ignored: bool = False
    """Readers skip it: its cluster died, and the operator chose to go on without what was not read."""
    known_end: int | None = None
    """Set while `end` is only an upper bound, because the cluster was dead at the cut: the client offset, exclusive, up
    to which it was known to have given out. None: the end is true."""
    found_end: int | None = None
    """Set when the cluster came back with less than `known_end`, or with more than has room below `end`: where its log
    ended. Nobody has accepted that yet."""
    surplus: bool | None = None
    """Set with `known_end` where the cluster died while a cut lay ahead that every gateway knew: what its log holds at
    and above `end` was never acknowledged, but for what the next extent holds as well."""

    copied: bool | None = None
    """Copiers of a mirror brought its records here: they are known by the copiers' producer ids, not by their own."""

    def changed(self, **fields: Any) -> Self:
        """The same with these values, which nobody checks against the types.

        :raises TypeError: it has no such field.
        """
        if unknown := fields.keys() - self.__dataclass_fields__.keys():
            raise TypeError(f"an extent has no {', '.join(sorted(unknown))}")
        new = object.__new__(type(self))
        for name in Extent.__slots__:
            object.__setattr__(new, name, fields[name] if name in fields else getattr(self, name))
        return new

    @property
    def shift(self) -> int:
        """What is added to an offset of the cluster to get the client's."""
        return self.start - self.base

    @property
    def physical_end(self) -> int | None:
        """The exclusive end in its own cluster, None while it is open."""
        return None if self.end is None else self.end - self.shift

    def to_physical(self, offset: int) -> int:
        """The offset in its cluster of client offset `offset`; of one that none can have, the highest that can be asked
        for."""
        return min(offset - self.shift, MAX_OFFSET)

    def to_client(self, physical: int) -> int:
        """The client offset of `physical`; the end itself is allowed, as log ends are exclusive.

        :raises ValueError: `physical` lies outside the extent.
        """
        end = self.physical_end
        if physical < self.base or (end is not None and physical > end):
            raise ValueError(
                f"offset {physical} of cluster {self.cluster} is outside its extent "
                f"[{self.base}, {'open' if end is None else end})"
            )
        return physical + self.shift

    def extrapolate(self, physical: int) -> int:
        """The client offset of `physical` as if the extent went on beyond both of its ends."""
        return physical + self.shift

    def clip(self, physical: int) -> int:
        """The client offset of `physical`, or of the end of the extent that is nearer to it."""
        offset = max(self.extrapolate(physical), self.start)
        return offset if self.end is None else min(offset, self.end)

    def holds(self, physical: int) -> bool:
        """Whether the offset of its cluster lies in the extent."""
        end = self.physical_end
        return physical >= self.base and (end is None or physical < end)

    def same_stay(self, other: Extent) -> bool:
        """Whether it is the same stay in the same cluster, whatever its end: offsets in it mean what they did."""
        return (self.cluster, self.term, self.start, self.base) == (other.cluster, other.term, other.start, other.base)


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="allow"))
class NewerExtent(Extent):
    """With fields that this version does not know: a newer one has put them there, and they are written again (`Part`).
    Only these have a `__dict__`, where they lie."""

    def changed(self, **fields: Any) -> Self:
        new = Extent.changed(self, **fields)
        vars(new).update(vars(self))
        return new

    def __getstate__(self) -> Any:
        return Extent.__getstate__(self), vars(self)

    def __setstate__(self, state: Any) -> None:
        Extent.__setstate__(self, state[0])  # type: ignore[attr-defined]
        vars(self).update(state[1])

    @model_serializer(mode="wrap")
    def _with_unknown(self, known: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {**known(self), **vars(self)}


Extents = tuple[Annotated[Extent | NewerExtent, Field(union_mode="left_to_right")], ...]
"""Of one partition."""


class Place(NamedTuple):
    """Where a client offset lies: `physical` is the offset in `extent.cluster`."""

    extent: Extent
    physical: int


class Hole(NamedTuple):
    """No cluster holds the client offset: readers go on at the start of `extent`, the next one that is readable."""

    extent: Extent


def locate(extents: Sequence[Extent], offset: int) -> Place | Hole:
    """The extent that holds client offset `offset`; ignored extents are holes.

    :raises ValueError: no extents, or a negative offset (the protocol's -1 and -2 are no offsets).
    """
    if offset < 0:
        raise ValueError(f"{offset} is no client offset: offsets start at 0")
    # The newest first: nearly every request is for the writer's extent.
    following = live(extents)
    for extent in reversed(extents):
        if extent.ignored:
            continue
        if offset >= extent.start:
            if extent.end is None or offset < extent.end:
                return Place(extent, extent.to_physical(offset))
            break
        following = extent
    return Hole(following)


def log_start(extents: Sequence[Extent], cluster: str, offset: int) -> int:
    """Log start of `cluster` if all records below client offset `offset` are deleted; 0: it has none of them."""
    below = [one for one in extents if one.cluster == cluster and one.start < offset]
    return max((one.to_physical(offset if one.end is None else min(offset, one.end)) for one in below), default=0)


def live(extents: Sequence[Extent]) -> Extent:
    """The writer's extent: the last one, which is open.

    :raises ValueError: there is none.
    """
    if not extents or extents[-1].end is not None:
        raise ValueError("the partition has no open extent, so it has no writer: its map is damaged")
    return extents[-1]


def identity(cluster: str) -> Extents:
    """The extents of a partition that never left `cluster`."""
    return (Extent(cluster=cluster, start=0, end=None, base=0, term=0),)


def append(extents: Sequence[Extent], target: str, at: int, base: int, known_end: int | None = None) -> Extents:
    """Close the writer's extent at client offset `at` and open one in `target`, whose log ends at `base` (physical).

    A stay in which nothing was written leaves no extent, but its term is used up all the same: producer ids of that
    term may be known to its cluster.
    A forced move closes an extent above anything it can hold. When the writer comes back to that cluster, its log end
    says what it did hold, so the older extent is closed there.

    :param known_end: of a forced move, see `Extent.known_end`.
    :raises ValueError: the cut lies below the writer's extent, the target is the writer, or terms are used up.
    """
    current = live(extents)
    if current.cluster == target:
        raise ValueError(f"{target} is the writer already: a cut needs another cluster")
    if at < current.start:
        raise ValueError(f"the cut {at} lies below {current.start}, where the stay in {current.cluster} began")
    if current.term >= MAX_TERM:
        raise ValueError(f"the partition has changed its writer {current.term} times, the most that can be counted")
    closed = current.changed(end=at, known_end=known_end)
    kept = tuple(_within(extent, target, base) for extent in (*extents[:-1], closed))
    opened = Extent(cluster=target, start=at, end=None, base=base, term=current.term + 1)
    return (*_without_empty(kept), opened)


def close(extents: Sequence[Extent], cluster: str, at: int) -> Extents:
    """Lower the end of the newest closed extent of `cluster` to client offset `at`, known once it has returned.

    From then on its end is confirmed. The cut itself never changes: what lay between is a hole.

    :raises ValueError: no closed extent there, or `at` lies outside it.
    """
    for index in reversed(range(len(extents) - 1)):
        extent = extents[index]
        if extent.cluster == cluster and extent.end is not None:
            if not extent.start <= at <= extent.end:
                raise ValueError(
                    f"client offset {at} of {cluster} is outside its extent [{extent.start}, {extent.end})"
                )
            shorter = extent.changed(end=at, **_CONFIRMED)
            return _without_empty((*extents[:index], shorter, *extents[index + 1 :]))
    raise ValueError(f"cluster {cluster} has no closed extent in this partition")


def skipping(extents: Sequence[Extent], cluster: str, ignored: bool = True) -> Extents:
    """With what lies in `cluster` skipped by readers, or served again."""
    return tuple(e.changed(ignored=ignored) if e.cluster == cluster else e for e in extents)


def check(extents: Sequence[Extent]) -> list[str]:
    """What is wrong with a partition's extents, in words; empty when all is well."""
    return list(_problems(extents)) if extents else ["there is no extent, so nobody may write"]


def _problems(extents: Sequence[Extent]) -> Iterator[str]:
    if extents[-1].end is not None:
        yield f"the last extent, in {extents[-1].cluster}, is closed, so nobody may write"
    if extents[-1].copied:
        yield f"the last extent, in {extents[-1].cluster}, is said to be copied, but it is written"
    if extents[-1].ignored:
        yield f"the last extent, in {extents[-1].cluster}, is ignored, but it is written"
    physical: dict[str, Extent] = {}
    for index, extent in enumerate(extents):
        where = f"extent {index} in {extent.cluster}"
        if extent.end is None and index < len(extents) - 1:
            yield f"{where} is open, but it is not the last one: two clusters would be written"
        if extent.end is not None and extent.end <= extent.start:
            yield f"{where} is empty: [{extent.start}, {extent.end})"
        if extent.known_end is not None and (extent.end is None or not extent.start <= extent.known_end <= extent.end):
            yield f"{where} is said to have held offsets up to {extent.known_end}, which lies outside of it"
        if index:
            before = extents[index - 1]
            if extent.start < (before.start + 1 if before.end is None else before.end):
                yield f"{where} starts at {extent.start}, inside the one before"
            if extent.term < before.term or (extent.term == before.term and not extent.copied):
                yield f"{where} has term {extent.term}, and the one before it has {before.term}"
        older = physical.get(extent.cluster)
        older_end = None if older is None else older.physical_end
        if older_end is not None and extent.base < older_end:
            yield f"{where} begins at its offset {extent.base}, and an older one there ends at {older_end}"
        physical[extent.cluster] = extent


_CONFIRMED = {"known_end": None, "found_end": None, "surplus": None}


def _within(extent: Extent, cluster: str, log_end: int) -> Extent:
    if extent.cluster != cluster or extent.end is None:
        return extent
    # A cluster that takes the writer is back: whatever readers had to skip there can be read again.
    return extent.changed(end=extent.clip(log_end), ignored=False, **_CONFIRMED)


def _without_empty(extents: Sequence[Extent]) -> Extents:
    return tuple(extent for extent in extents if extent.end is None or extent.end > extent.start)
