"""Extents: each partition keeps one client offset space, whichever clusters hold its records.

Extents of a partition are in client order and half-open; the last one is open and belongs to the writer. Offsets
between two extents are a hole, like the gaps of a compacted log. Every function keeps `check` free of problems.

Only this module knows how client offsets relate to offsets of a cluster (`physical`); patches of requests and answers
add `Extent.shift` and derive nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Annotated, Any, NamedTuple, Self

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator
from pydantic.dataclasses import dataclass

from ha_core.model.producer import MAX_WRITER_EPOCH

MAX_OFFSET = (1 << 63) - 1
"""The highest offset that the protocol can carry."""


_STORED = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)


@dataclass(frozen=True, slots=True, kw_only=True, config=_STORED)
class Extent:
    """A range of one partition's client offsets that one cluster holds.

    Client offset `o` in `[start, end)` is offset `base + (o - start)` there; `end` None means open.
    `writer_epoch` is 0 for the first cluster, one more at every cut, never reset. Copied extents have the
    epoch in which their records were written, so several may share one.

    A gateway holds all extents of a fleet, hundreds of thousands. Slots instead of a model (`Part`) take a sixth of
    the memory.
    """

    cluster: str
    start: int = Field(ge=0)
    end: int | None = None
    base: int = Field(ge=0)
    writer_epoch: int = Field(ge=0, validation_alias="term", serialization_alias="term")
    """Stored as `term`."""
    ignored: bool = False
    """Readers skip it: its cluster died, and the operator chose to go on without its unread records."""
    known_end: int | None = None
    """Set while `end` is only an upper bound, because the cluster was dead at the cut: the client offset, exclusive, up
    to which it is known to have assigned offsets. None: `end` is exact."""
    found_end: int | None = None
    """Log end of a cluster that returned with less than `known_end`, or with more than fits below `end`. No operator
    has accepted it yet."""
    surplus: bool | None = None
    """Set with `known_end` where the cluster died while a cut lay ahead that every gateway knew: it never acknowledged
    its records at and above `end`, except those that the next extent holds too."""

    copied: bool | None = None
    """Copiers of a mirror appended its records: they have the copiers' producer ids, not their own."""

    def changed(self, **fields: Any) -> Self:
        """A copy with these values, which are not validated.

        :raises TypeError: there is no such field.
        """
        if unknown := fields.keys() - self.__dataclass_fields__.keys():
            raise TypeError(f"an extent has no {', '.join(sorted(unknown))}")
        new = object.__new__(type(self))
        for name in self.__dataclass_fields__:
            object.__setattr__(new, name, fields[name] if name in fields else getattr(self, name))
        return new

    @property
    def shift(self) -> int:
        """Client offset minus physical offset."""
        return self.start - self.base

    @property
    def physical_end(self) -> int | None:
        """The exclusive end in its own cluster; None while open."""
        return None if self.end is None else self.end - self.shift

    def to_physical(self, offset: int) -> int:
        """The physical offset of client offset `offset`, at most the highest that the protocol can carry."""
        return min(offset - self.shift, MAX_OFFSET)

    def to_client(self, physical: int) -> int:
        """The client offset of `physical`; the end itself is allowed, as log ends are exclusive.

        :raises ValueError: `physical` is outside the extent.
        """
        end = self.physical_end
        if physical < self.base or (end is not None and physical > end):
            raise ValueError(
                f"offset {physical} of cluster {self.cluster} is outside its extent "
                f"[{self.base}, {'open' if end is None else end})"
            )
        return physical + self.shift

    def extrapolate(self, physical: int) -> int:
        """The client offset of `physical` as if the extent had no bounds."""
        return physical + self.shift

    def clip(self, physical: int) -> int:
        """The client offset of `physical`, clipped to the extent."""
        offset = max(self.extrapolate(physical), self.start)
        return offset if self.end is None else min(offset, self.end)

    def holds(self, physical: int) -> bool:
        """Whether the physical offset is in the extent."""
        end = self.physical_end
        return physical >= self.base and (end is None or physical < end)

    def same_stay(self, other: Extent) -> bool:
        """Whether both are one stay in one cluster, even if their ends differ: their offsets mean the same records."""
        return (self.cluster, self.writer_epoch, self.start, self.base) == (
            other.cluster,
            other.writer_epoch,
            other.start,
            other.base,
        )


@dataclass(frozen=True, slots=True, kw_only=True, config=_STORED)
class NewerExtent(Extent):
    """An extent with fields that a newer version has added; this one writes them again (`Part`). Other extents have no
    room for any."""

    unknown: dict[str, Any] = field(hash=False)

    @model_validator(mode="before")
    @classmethod
    def _apart(cls, stored: dict[str, Any]) -> dict[str, Any]:
        known = {name: value for name, value in stored.items() if name == "term" or name in Extent.__dataclass_fields__}
        return {**known, "unknown": {name: value for name, value in stored.items() if name not in known}}

    @model_serializer(mode="wrap")
    def _with_unknown(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name != "unknown"} | self.unknown


Extents = tuple[Annotated[Extent | NewerExtent, Field(union_mode="left_to_right")], ...]
"""All extents of one partition."""


class Location(NamedTuple):
    """The place of a client offset: `physical` is its offset in `extent.cluster`."""

    extent: Extent
    physical: int


class Hole(NamedTuple):
    """No cluster holds the client offset: readers continue at the start of `extent`, the next readable one."""

    extent: Extent


def locate(extents: Sequence[Extent], offset: int) -> Location | Hole:
    """Find the extent that holds client offset `offset`; ignored extents are holes.

    :raises ValueError: no extents, or a negative offset (the protocol's -1 and -2 are no offsets).
    """
    if offset < 0:
        raise ValueError(f"{offset} is no client offset: offsets start at 0")
    # Newest first: nearly every request is for the writer's extent.
    following = open_extent(extents)
    for extent in reversed(extents):
        if extent.ignored:
            continue
        if offset >= extent.start:
            if extent.end is None or offset < extent.end:
                return Location(extent, extent.to_physical(offset))
            break
        following = extent
    return Hole(following)


def log_start(extents: Sequence[Extent], cluster: str, offset: int) -> int:
    """Log start of `cluster` once all records below client offset `offset` are deleted; 0: it has none of them."""
    below = [e for e in extents if e.cluster == cluster and e.start < offset]
    return max((e.to_physical(offset if e.end is None else min(offset, e.end)) for e in below), default=0)


def open_extent(extents: Sequence[Extent]) -> Extent:
    """The writer's extent: the last one, which is open.

    :raises ValueError: no extent is open.
    """
    if not extents or extents[-1].end is not None:
        raise ValueError("the partition has no open extent, so it has no writer: its map is damaged")
    return extents[-1]


def client_place(extents: Sequence[Extent], cluster: str, physical: int) -> int | None:
    """The client offset at which a reader goes on that reads `cluster` past the gateways and is at `physical` there;
    None: no extent of the cluster has a record at or above it."""
    for extent in extents:
        end = extent.physical_end
        if extent.cluster == cluster and (end is None or physical < end):
            return extent.to_client(max(physical, extent.base))
    return None


def physical_place(extents: Sequence[Extent], cluster: str, offset: int) -> int | None:
    """The inverse of `client_place`; None: another cluster holds the reader's next records, or may still get them."""
    place = locate(extents, offset)
    if place.extent.cluster != cluster:
        return None
    return place.physical if isinstance(place, Location) else place.extent.base


def identity(cluster: str) -> Extents:
    """The extents of a partition that never left `cluster`."""
    return (Extent(cluster=cluster, start=0, end=None, base=0, writer_epoch=0),)


def append(extents: Sequence[Extent], target: str, at: int, base: int, known_end: int | None = None) -> Extents:
    """Close the writer's extent at client offset `at` and open one in `target`, whose log ends at `base` (physical).

    A stay without records leaves no extent, but uses up its writer epoch: its cluster may know producer ids of it.
    A forced move closes an extent above every offset that it can hold. When the writer comes back to that cluster, the
    log end shows where the older extent really ended, so it is closed there.

    :param known_end: forced moves only, see `Extent.known_end`.
    :raises ValueError: the cut is below the writer's extent, the target is the writer, or epochs are used up.
    """
    current = open_extent(extents)
    if current.cluster == target:
        raise ValueError(f"{target} is the writer already: a cut needs another cluster")
    if at < current.start:
        raise ValueError(f"the cut {at} is below {current.start}, where the stay in {current.cluster} began")
    if current.writer_epoch >= MAX_WRITER_EPOCH:
        raise ValueError(
            f"the partition has changed its writer {current.writer_epoch} times, the most that can be counted"
        )
    closed = current.changed(end=at, known_end=known_end)
    kept = tuple(_within(extent, target, base) for extent in (*extents[:-1], closed))
    opened = Extent(cluster=target, start=at, end=None, base=base, writer_epoch=current.writer_epoch + 1)
    return (*_without_empty(kept), opened)


def close(extents: Sequence[Extent], cluster: str, at: int) -> Extents:
    """Lower the end of the newest closed extent of `cluster` to client offset `at`, known once it has returned.

    That confirms its end. The cut itself never changes: the offsets between are a hole.

    :raises ValueError: no closed extent there, or `at` is outside it.
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
    """Make readers skip the extents of `cluster`, or serve these again."""
    return tuple(e.changed(ignored=ignored) if e.cluster == cluster else e for e in extents)


def check(extents: Sequence[Extent]) -> list[str]:
    """Problems of a partition's extents, in words; empty if there are none."""
    return list(_problems(extents)) if extents else ["there is no extent, so no cluster accepts produce"]


def _problems(extents: Sequence[Extent]) -> Iterator[str]:
    if extents[-1].end is not None:
        yield f"the last extent, in {extents[-1].cluster}, is closed, so no cluster accepts produce"
    if extents[-1].copied:
        yield f"the last extent, in {extents[-1].cluster}, is marked as copied, but it is the writer's"
    if extents[-1].ignored:
        yield f"the last extent, in {extents[-1].cluster}, is ignored, but it is the writer's"
    physical: dict[str, Extent] = {}
    for index, extent in enumerate(extents):
        where = f"extent {index} in {extent.cluster}"
        if extent.end is None and index < len(extents) - 1:
            yield f"{where} is open, but it is not the last one: two clusters would accept produce"
        if extent.end is not None and extent.end <= extent.start:
            yield f"{where} is empty: [{extent.start}, {extent.end})"
        if extent.known_end is not None and (extent.end is None or not extent.start <= extent.known_end <= extent.end):
            yield f"{where} has a known end of {extent.known_end}, which is outside of it"
        if index:
            before = extents[index - 1]
            if extent.start < (before.start + 1 if before.end is None else before.end):
                yield f"{where} starts at {extent.start}, inside the one before"
            if extent.writer_epoch < before.writer_epoch or (
                extent.writer_epoch == before.writer_epoch and not extent.copied
            ):
                yield (
                    f"{where} has writer epoch {extent.writer_epoch}, and the one before it has {before.writer_epoch}"
                )
        older = physical.get(extent.cluster)
        older_end = None if older is None else older.physical_end
        if older_end is not None and extent.base < older_end:
            yield f"{where} begins at its offset {extent.base}, and an older one there ends at {older_end}"
        physical[extent.cluster] = extent


_CONFIRMED = {"known_end": None, "found_end": None, "surplus": None}


def _within(extent: Extent, cluster: str, log_end: int) -> Extent:
    if extent.cluster != cluster or extent.end is None:
        return extent
    # A cluster that becomes the writer is back: readers can have the records there that they had to skip.
    return extent.changed(end=extent.clip(log_end), ignored=False, **_CONFIRMED)


def _without_empty(extents: Sequence[Extent]) -> Extents:
    return tuple(extent for extent in extents if extent.end is None or extent.end > extent.start)
