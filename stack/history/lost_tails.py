"""A topic went on at its copy when its cluster was lost: the history of what is left, and the account of what is not.

The tail, what the lost cluster had and the copy had not, lies in no extent. In the history of what is left it was never
acknowledged and never read, and the logs are what the map serves. Nothing else is forgiven: whatever is lost, doubled
or renumbered beside it is so in that history too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ha_core.model import LostTail, Topic
from stack.history.delivery import acknowledged, readers_of
from stack.history.events import Acked, Committed, Delivered, Event
from stack.history.history import History, LogDump, Spot, Values
from stack.history.violation import Violation


@dataclass(frozen=True)
class ForcedLoss:
    """A forced switch of one topic, and what the lost cluster was found to hold when it was back."""

    topic: Topic
    """Behind the cut."""
    tail: LostTail
    cut_at: float
    """From then on nothing of the tail is read."""
    commits_since: float
    """What was committed from then to the cut may be lost with the cluster: a group reads on from before."""


@dataclass(frozen=True)
class LostTailCounts:
    """Counts of distinct records."""

    acknowledged: int
    reported: int
    """Records in the tail, as the reconciled cluster's are counted."""
    lost: int
    """Acknowledged where they lie in the tail, and nowhere else."""
    came_again: int
    """Of the tail: their producers had no answer, and sent them again, to the copy."""
    delivered: int
    missing: tuple[str, ...]
    """Neither lost nor delivered."""
    strange: tuple[str, ...]
    """Delivered, though lost, or never acknowledged."""

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
    """What lies in the tail, from the log of the lost cluster: partition → client offset → value."""
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
    """What became of everything that was acknowledged.

    :param reader: a group, or a consumer without one, that began when the switch was over and read all of the topic.
    """
    values = Values(history)
    promised = acknowledged(history, values).keys()
    kept = acknowledged(what_is_left(history, loss), values).keys()
    lying = {value for records in tail_records(history, loss.tail).values() for value in records.values()}
    members = [started.client for started in readers_of(history)[reader]]
    given = {event.value for name in members for event in history.clients[name] if isinstance(event, Delivered)}
    return LostTailCounts(
        acknowledged=len(promised),
        reported=sum(known.records or 0 for known in loss.tail.partitions.values()),
        lost=len(promised - kept),
        came_again=len(lying & kept),
        delivered=len(given),
        missing=tuple(sorted(kept - given)),
        strange=tuple(sorted(given - kept)),
    )


def tail_violations(history: History, loss: ForcedLoss) -> Iterator[Violation]:
    """A tail that is read, or counted wrongly, and records that the copy took past its map."""
    lying = tail_records(history, loss.tail)
    for (topic, partition), records in lying.items():
        told = loss.tail.partitions[partition].records
        if told != len(records):
            text = f"{told} records are reported, its log holds {len(records)}"
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

    :raises ValueError: a cluster that the map names was not dumped.
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
