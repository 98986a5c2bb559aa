"""Reconciling a returned cluster: the findings about its lost tails, and when it may be the standby again.

No extent has the records of a tail, so no client ever reads them, whatever is found. They are counted, and the cluster
becomes the standby only if its log has all that was mirrored from it (`decision`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from ha_core.model import LostTail, Mirror, Topic
from ha_core.model.extent import open_extent
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import Verdict, amount, info, listed, warning

TailOutcome = Literal["counted", "differs", "less", "gone", "other", "unknown"]
_WORDS: Mapping[TailOutcome, str] = {
    "counted": "{records} of {cluster} from {mirrored} on {were} not mirrored",
    "differs": "below {mirrored}, its mirrored end, {cluster} has other records than the copy: the first difference "
    "among the compared records is at offset {at} ({what}). It is not mirrored to. `--verify full` compares all; when "
    "none of its records is needed there, delete the topic in {cluster} and link it again",
    "less": "{cluster} ends at {end}, below {mirrored}, its mirrored end: it has lost records, and its lost tail "
    "cannot be counted",
    "gone": "{cluster} does not have it any more: its lost tail from {mirrored} on cannot be counted",
    "other": "the topic was deleted in {cluster} and created again: its lost tail from {mirrored} on cannot be counted",
    "unknown": "its leader in {cluster} does not answer, or its replicas have not caught up: run it again",
}


class TailFound(NamedTuple):
    """One partition of a returned cluster. Offsets are those of the cluster."""

    topic: str
    partition: int
    operation: str
    """The forced switch that left it."""
    outcome: TailOutcome
    mirrored: int
    """The copy has all records below this offset."""
    start: int | None = None
    """First offset of the tail: above `mirrored` if retention has deleted some of it."""
    end: int | None = None
    """Log end."""
    records: int | None = None
    bytes: int | None = None
    aborted: int | None = None
    """Further records, of aborted transactions; None: counted by an earlier version, among `records`."""
    differs_at: int | None = None
    """The first compared offset that differs from the copy."""
    difference: str = ""

    @classmethod
    def of(cls, tail: LostTail, partition: int, outcome: TailOutcome, end: int | None = None) -> TailFound:
        mirrored = tail.partitions[partition].mirrored
        return cls(tail.topic, partition, tail.operation, outcome, mirrored, end=end)

    def differing(self, offset: int, what: str) -> TailFound:
        """A counted tail below which the log differs from its copy; other outcomes say more already and stay."""
        if self.outcome != "counted":
            return self
        return self._replace(outcome="differs", differs_at=offset, difference=what)

    @property
    def deleted(self) -> int:
        """Offsets that retention has deleted before they were counted."""
        return 0 if self.start is None else max(0, self.start - self.mirrored)

    def words(self, cluster: str) -> str:
        """The finding, for people."""
        return _WORDS[self.outcome].format(
            cluster=cluster,
            end=self.end,
            mirrored=self.mirrored,
            at=self.differs_at,
            what=self.difference,
            records=amount(self.records or 0, "record"),
            were="was" if self.records == 1 else "were",
        )

    @property
    def noted(self) -> list[Any]:
        """Detail for the history."""
        return [self.partition, self.outcome, self.mirrored, self.end, self.records, self.bytes, self.differs_at]


def verdicts_on(cluster: str, tails: Iterable[TailFound], not_mirrored: Mapping[str, str]) -> Iterator[Verdict]:
    """The findings as verdicts, which the history keeps. None is an error: a tail that cannot be counted waits.

    :param not_mirrored: topic → why it is not mirrored to the cluster.
    """
    for one in tails:
        about, text = f"partition {one.topic}-{one.partition}", f"{one.words(cluster)}."
        if one.outcome == "counted":
            yield (warning if one.records else info)(
                "tail-counted", about, text, number=one.records or 0, unit="records"
            )
        else:
            yield warning("tail-differs" if one.outcome == "differs" else "tail-uncounted", about, text)
    for topic, why in sorted(not_mirrored.items()):
        yield warning("not-mirrored-back", f"topic {topic}", f"It is not mirrored to {cluster}: {why}.")


def uncounted(tails: Iterable[LostTail]) -> Mapping[str, list[LostTail]]:
    """Cluster → its tails that are not counted."""
    in_order = sorted(tails, key=lambda lost_tail: (lost_tail.cluster, lost_tail.topic))
    return grouped((tail.cluster, tail) for tail in in_order if tail.counted is None)


def counted_before(tail: LostTail) -> Iterator[TailFound]:
    for partition, known in sorted(tail.partitions.items()):
        if known.records is not None and known.differs_at is None:
            one = TailFound.of(tail, partition, "counted", known.end)
            yield one._replace(start=known.start, records=known.records, bytes=known.bytes_, aborted=known.aborted)


def written_again_from(topic: Topic | None, tail: LostTail, partition: int) -> int | None:
    """Base of a later stay of the writer in the log that has the tail; None: there was none since."""
    extents = () if topic is None else topic.partitions.get(partition, ())
    client = tail.partitions[partition].client
    return min(
        (extent.base for extent in extents if extent.cluster == tail.cluster and extent.start > client), default=None
    )


def moved_since(topic: Topic | None, tail: LostTail, terms: Mapping[int, int]) -> str:
    """Why the mirror cannot be reversed, by the topic's map; empty: it can.

    :param terms: writer epochs that began with the forced switch, of the partitions that it moved.
    """
    link = f"when none of its records in {tail.cluster} is needed, delete the topic there and link it again"
    if topic is None or not topic.mapped or not topic.sound:
        return f"its map is gone or damaged: {link}"
    since = {p for p in topic.partitions if p not in terms or open_extent(topic.extents(p)).writer_epoch != terms[p]}
    if since & tail.partitions.keys():
        return f"it has moved on since: {link}"
    if left := sorted(topic.partitions.keys() - tail.partitions.keys()):
        return f"{listed(f'partition {p}' for p in left)} had no copy: {link}"
    return ""


def old_mirror(tail: LostTail) -> Mirror:
    """The mirror that was cut off, with the fields that its notes and its reversal need."""
    old = Mirror.of(tail.topic, tail.cluster, tail.target, tail.link, tail.since, "", **tail.policy)
    return old.changed(log=tail.log, log_partitions=tail.log_partitions)


def filled(tail: LostTail, tails: Iterable[TailFound], counted: str | None) -> LostTail:
    """The tail with the counts of these findings; others stay unknown."""
    partitions = dict(tail.partitions)
    for one in tails:
        if one.records is not None:
            partitions[one.partition] = partitions[one.partition].changed(
                start=one.start,
                end=one.end,
                records=one.records,
                bytes_=one.bytes,
                aborted=one.aborted,
                differs_at=one.differs_at,
                difference=one.difference,
            )
    return tail.changed(partitions=partitions, counted=counted)
