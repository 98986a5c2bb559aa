"""The status of a topic's last migration, derived from its map and its logs, never stored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ha_core.model import Topic

Status = Literal["Migrating", "Migrated", "Aged"]


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition's last change of writer. Offsets are client offsets."""

    partition: int
    origin: str
    """Empty once the map has no extent of the origin, for example if all of it is read from the target's copy."""
    target: str
    end_offset: int
    """Exclusive end of the origin's records, now or after the crossing."""
    ignore_origin: bool
    crosses: bool = False
    """Its cut lies ahead."""
    end: int | None = None
    """The origin's log end during a crossing; None: not known, or not needed any more."""

    @property
    def missing(self) -> int | None:
        """Records until the cut; None: not known."""
        return None if self.end is None else max(0, self.end_offset - self.end)

    def to_json(self, status: Status) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "status": status,
            "originClusterId": self.origin or None,
            "targetClusterId": self.target,
            "endOffset": self.end_offset,
            "ignoreOrigin": self.ignore_origin,
            **({"originEnd": self.end, "missing": self.missing} if self.end is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class TopicStatus:
    topic: str
    status: Status
    partitions: tuple[PartitionStatus, ...]

    @property
    def reached(self) -> int:
        """Partitions whose log has reached the cut."""
        return sum(partition.missing == 0 or not partition.crosses for partition in self.partitions)


def status_of(topic: Topic, ends: Mapping[int, int] | None = None) -> TopicStatus | None:
    """The status of a topic; None if it was never moved.

    *Migrating*: its cuts lie ahead, and not all partitions are known to have reached them. *Aged*: the map has no
    extent of the origin any more. Else *Migrated*.

    :param ends: partition → client offset of the origin's log end, for a topic that crosses.
    """
    statuses = tuple(_partitions(topic, ends or {}))
    if not statuses:
        return None
    migrating = any(status.crosses and status.missing != 0 for status in statuses)
    stays = any(status.origin or status.crosses for status in statuses)
    return TopicStatus(topic.name, "Migrating" if migrating else "Migrated" if stays else "Aged", statuses)


def _partitions(topic: Topic, ends: Mapping[int, int]) -> Iterator[PartitionStatus]:
    for partition, (*older, now) in sorted(topic.partitions.items()):
        before = next((one for one in reversed(older) if not one.copied), None)
        if before is None and now.writer_epoch == 0:
            continue
        yield PartitionStatus(
            partition=partition,
            origin=before.cluster if before else "",
            target=now.cluster,
            end_offset=now.start,
            ignore_origin=bool(before and before.ignored),
            crosses=topic.crosses(partition),
            end=ends.get(partition) if topic.crosses(partition) else None,
        )
