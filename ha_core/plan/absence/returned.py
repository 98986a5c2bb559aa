"""What becomes of an extent whose cluster was dead at the cut, once that cluster answers again.

Its log says where it truly ends, and the extent is closed there. A log that ends below what was known, or goes on above
the cut, concludes nothing: readers keep waiting, the extent is marked, and an operator decides. (Above a cut that lay
ahead it is surplus, and nothing to tell.) Why: docs/design/client-offsets-and-extents.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

from ha_core.model import Extent, Topic, View
from ha_core.model.extent import Extents, close, skipping

Outcome = Literal["whole", "less", "more", "accepted"]


class Return(NamedTuple):
    """One partition of a cluster that is back. All offsets are client offsets."""

    topic: str
    partition: int
    cluster: str
    known_end: int
    """Exclusive: what it was known to hold when it died."""
    found_end: int
    """Exclusive: what it holds now."""
    cut: int
    """Where its extent ends at most: what lies above has no place."""
    outcome: Outcome
    """`less`: than was known. `more`: than there is room for below the cut. Nobody has accepted that. `accepted`:
    somebody has."""
    skipped: bool
    """Readers skip it, so nothing of it is served."""

    @property
    def beyond(self) -> int:
        """Records, at most, that it had taken after it was last seen: nobody knew of them, or had read them."""
        return max(0, min(self.found_end, self.cut) - self.known_end)

    @property
    def above(self) -> int:
        """Offsets above the cut, in no extent: nobody reads them, though producers may have been told of them."""
        return max(0, self.found_end - self.cut)

    @property
    def missing(self) -> int:
        """Offsets that it was known to hold and no longer has."""
        return max(0, self.known_end - self.found_end)


def gone_for_good(cluster: str) -> str:
    """The way out where `cluster` never comes back: the end of a text about what waits for it."""
    return f"if it is gone for good: `switchyard origins give-up {cluster}`"


def dead_at_the_cut(topic: Topic, masked: Collection[str] = ()) -> Iterator[str]:
    """What to do about each cluster whose extents in the map are not confirmed, for people.

    :param masked: clusters that are out of service: whether they are dead, nobody has asked.
    """
    clusters = {extent.cluster for _, extent in topic.stays() if extent.known_end is not None}
    for cluster in sorted(clusters):
        if cluster in masked:
            way = f", and is masked: `switchyard unmask {cluster}` when it is healthy, then `switchyard origins check`"
        else:
            way = f": `switchyard origins check` when it is back; {gone_for_good(cluster)}"
        yield f"{cluster} was dead at the cut{way}"


def unconfirmed(view: View) -> Iterator[tuple[str, int, Extent]]:
    """(topic, partition, extent) whose end is only an upper bound."""
    for name, topic in sorted(view.topics.items()):
        yield from ((name, partition, extent) for partition, extent in topic.stays() if extent.known_end is not None)


def look_at(topic: str, partition: int, extent: Extent, log_end: int | None, accept_loss: bool = False) -> Return:
    """What the log of the returned cluster says about `extent`.

    :param log_end: as its cluster counts; None: the cluster answers, and does not have the topic.
    """
    known = extent.known_end
    assert known is not None
    assert extent.end is not None
    held = extent.base if log_end is None else max(log_end, extent.base)
    found = extent.clip(held) if extent.surplus else extent.extrapolate(held)
    less, more = found < known or log_end is None, found > extent.end
    outcome: Outcome = "whole" if not (less or more) else "accepted" if accept_loss else "less" if less else "more"
    return Return(topic, partition, extent.cluster, known, found, extent.end, outcome, extent.ignored)


def confirmed(extents: Sequence[Extent], found: Return) -> Extents:
    if found.outcome in {"less", "more"}:
        return tuple(
            extent.changed(found_end=found.found_end)
            if extent.cluster == found.cluster and extent.known_end is not None
            else extent
            for extent in extents
        )
    return close(extents, found.cluster, min(found.found_end, found.cut))


def read_again(topic: Topic, cluster: str) -> Topic:
    """The topic with the extents of `cluster` that readers skipped served again."""
    served = {partition: skipping(extents, cluster, False) for partition, extents in topic.partitions.items()}
    return topic.changed(partitions=served)
