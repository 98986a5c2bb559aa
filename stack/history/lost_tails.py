"""A topic went on at its copy when its cluster was lost: the remaining history, and the account of the lost tail.

The lost tail, records of the lost cluster that the copy did not have, is in no extent. The remaining history treats it
as never acknowledged and never read, and its logs are those that the map serves. Any other lost, duplicated or
renumbered record is still an error there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ha_core.model import LostTail, Topic
from stack.history.delivery import acknowledged, readers_of
from stack.history.events import Acked, Committed, Delivered, Event
from stack.history.history import History, LogDump, Spot, Values
from stack.history.violation import Violation


@dataclass(frozen=True)
class ForcedLoss:
    """A forced switch of one topic, and the records that the lost cluster turned out to hold when it was back."""

    topic: Topic
    """Above the cut."""
    tail: LostTail
    cut_at: float
    """After this time no record of the tail is delivered."""
    commits_since: float
    """Commits between this time and the cut may be lost: the group then reads on from an earlier offset."""


@dataclass(frozen=True)
class LostTailCounts:
    """Counts of distinct records."""

    acknowledged: int
    reported: int
    """Records in the tail, as `mirror reconcile` counts them."""
    lost: int
    """Acknowledged in the tail, and in no other log."""
    came_again: int
    """Records of the tail that their producers, without an answer, sent again, to the copy."""
    delivered: int
    missing: tuple[str, ...]
    """Neither lost nor delivered."""
    strange: tuple[str, ...]
    """Delivered, although lost or never acknowledged."""

    @property
    def exact(self) -> bool:
        return not self.missing and not self.strange and self.acknowledged - self.lost == self.delivered

    def __str__(self) -> str:
        again = f", {self.came_again} of them written again at the copy" if self.came_again else ""
        return (
            f"{self.acknowledged:,} acknowledged - {self.lost:,} lost ({self.reported:,} reported{again}) "
            f"{'=' if self.exact else '≠'} {self.delivered:,} delivered"
        )


def tail_records(history: History, tail: LostTail) -> dict[Spot, dict[int, str]]:
    """Records of the tail, from the log of the lost cluster: partition → client offset → value."""
    found: dict[Spot, dict[int, str]] = {}
    for dump in history.logs:
        if (dump.cluster, dump.topic) != (tail.cluster, tail.topic):
            continue
        known = tail.partitions[dump.partition]
        start, end = known.start or known.mirrored, known.end or 0
        found[dump.topic, dump.partition] = {
            known.client + at - known.mirrored: value for at, value in dump.records.items() if start <= at < end
        }
    return found


def what_is_left(history: History, loss: ForcedLoss) -> History:
    """The history without the tail, and with the logs that the map serves, in client offsets."""
    lying = tail_records(history, loss.tail)
    clients = {
        name: tuple(event for event in events if not _is_gone(event, loss, lying))
        for name, events in history.clients.items()
    }
    others = tuple(dump for dump in history.logs if dump.topic != loss.topic.name)
    return History(clients, history.cuts, history.faults, (*others, *_served(history, loss.topic)))


def account(history: History, loss: ForcedLoss, reader: str) -> LostTailCounts:
    """Account for all acknowledged records.

    :param reader: a group, or a consumer without one, that started after the switch and read the whole topic.
    """
    values = Values(history)
    promised = acknowledged(history, values).keys()
    kept = acknowledged(what_is_left(history, loss), values).keys()
    lying = {value for records in tail_records(history, loss.tail).values() for value in records.values()}
    members = [started.client for started in readers_of(history)[reader]]
    given = {event.value for name in members for event in history.clients[name] if isinstance(event, Delivered)}
    return LostTailCounts(
        acknowledged=len(promised),
        reported=sum(tail.records or 0 for tail in loss.tail.partitions.values()),
        lost=len(promised - kept),
        came_again=len(lying & kept),
        delivered=len(given),
        missing=tuple(sorted(kept - given)),
        strange=tuple(sorted(given - kept)),
    )


def tail_violations(history: History, loss: ForcedLoss) -> Iterator[Violation]:
    """Violations: a tail that is read or miscounted, and records that the copy holds outside of its map."""
    lying = tail_records(history, loss.tail)
    for (topic, partition), records in lying.items():
        counted = loss.tail.partitions[partition].records
        if counted != len(records):
            text = f"{counted} records are reported, its log holds {len(records)}"
            yield Violation("miscounted", loss.tail.cluster, topic, partition, None, (), text)
    for name, events in history.clients.items():
        for event in events:
            if isinstance(event, Delivered) and event.t > loss.cut_at and _lies_in(event, lying):
                text = f"it lies in {loss.tail.cluster} only, and its topic had gone on without it"
                yield Violation(
                    "tail delivered", name, event.topic, event.partition, event.value, (event.offset,), text
                )
    for dump in history.logs:
        extents = loss.topic.partitions.get(dump.partition, ()) if dump.topic == loss.topic.name else ()
        mine = [extent for extent in extents if extent.cluster == dump.cluster]
        for at, value in dump.records.items() if mine else ():
            if not any(extent.holds(at) for extent in mine):
                text = f"{dump.cluster} holds it at its own offset {at}, in no extent"
                yield Violation("late append", dump.cluster, dump.topic, dump.partition, value, (at,), text)


def _is_gone(event: Event, loss: ForcedLoss, lying: Mapping[Spot, Mapping[int, str]]) -> bool:
    if isinstance(event, Acked | Delivered):
        return _lies_in(event, lying)
    return (
        isinstance(event, Committed) and event.topic == loss.topic.name and loss.commits_since <= event.t <= loss.cut_at
    )


def _lies_in(event: Acked | Delivered, lying: Mapping[Spot, Mapping[int, str]]) -> bool:
    return lying.get((event.topic, event.partition), {}).get(event.offset) == event.value


def _served(history: History, topic: Topic) -> Iterator[LogDump]:
    """Each partition as one log, in client offsets.

    :raises ValueError: a cluster in the map has no log dump.
    """
    dumps = {(dump.cluster, dump.partition): dump for dump in history.logs if dump.topic == topic.name}
    for partition, extents in topic.partitions.items():
        records: dict[int, str] = {}
        for extent in extents:
            if (extent.cluster, partition) not in dumps:
                raise ValueError(f"the log of {topic.name}-{partition} in {extent.cluster} was not read")
            held = dumps[extent.cluster, partition].records.items()
            records |= {extent.to_client(at): value for at, value in held if extent.holds(at)}
        yield LogDump("map", topic.name, partition, 0, max(records, default=-1) + 1, records)
