"""Closes extents whose cluster was dead at the cut, once that cluster answers again.

The extent is closed at the end of its log. If that is below the known end, or above the cut, an operator decides
(`decision`): until then readers wait, and the extent is marked. Above a cut that lay ahead the log is surplus, which is
not reported. Why: docs/design/client-offsets-and-extents.md.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ha_core.model import Extent, Topic, View
from ha_core.model.extent import Extents, close, skipping
from ha_core.plan.absence.decision import FINDINGS, Finding, compare, gone_for_good, settled, unmask

Outcome = Literal["whole", "less", "more", "accepted"]
_OUTCOMES: Mapping[Finding, Outcome] = {"whole": "whole", "less": "less", "gone": "less", "more": "more"}


class Return(NamedTuple):
    """One partition of a cluster that is back. All offsets are client offsets."""

    topic: str
    partition: int
    cluster: str
    known_end: int
    """Exclusive end known when it died."""
    found_end: int
    """Exclusive end now."""
    cut: int
    """Upper bound of its extent: no client offset above it can belong to it."""
    outcome: Outcome
    """`less`: it ends below the known end. `more`: it ends above the cut. `accepted`: an operator accepts either."""
    skipped: bool
    """Readers skip it, so none of it is served."""

    @property
    def open(self) -> bool:
        """It waits for an operator."""
        return self.outcome != "accepted" and bool(FINDINGS[self.outcome].waits_for)

    @property
    def beyond(self) -> int:
        """Upper bound of records appended after it was last seen: unknown until now, and never read."""
        return max(0, min(self.found_end, self.cut) - self.known_end)

    @property
    def above(self) -> int:
        """Offsets above the cut, in no extent: never read, although they may have been acknowledged."""
        return max(0, self.found_end - self.cut)

    @property
    def missing(self) -> int:
        """Known offsets that it no longer has."""
        return max(0, self.known_end - self.found_end)


def dead_at_the_cut(topic: Topic, masked: Collection[str] = ()) -> Iterator[str]:
    """The way out, for people, for each cluster with unconfirmed extents in the map.

    :param masked: clusters out of service, which were not asked whether they are alive.
    """
    clusters = {extent.cluster for _, extent in topic.all_extents() if extent.known_end is not None}
    for cluster in sorted(clusters):
        if cluster in masked:
            way = f", and is masked: {unmask(cluster)}, then `switchyard origins check`"
        else:
            way = f": `switchyard origins check` when it is back; {gone_for_good(cluster)}"
        yield f"{cluster} was dead at the cut{way}"


def unconfirmed(view: View) -> Iterator[tuple[str, int, Extent]]:
    """(topic, partition, extent) of all extents whose end is only an upper bound."""
    for name, topic in sorted(view.topics.items()):
        yield from (
            (name, partition, extent) for partition, extent in topic.all_extents() if extent.known_end is not None
        )


def look_at(topic: str, partition: int, extent: Extent, log_end: int | None, accept_loss: bool = False) -> Return:
    """Compare `extent` with the log of its returned cluster.

    :param log_end: physical; None: the cluster answers, and does not have the topic.
    """
    known = extent.known_end
    assert known is not None
    assert extent.end is not None
    held = extent.base if log_end is None else max(log_end, extent.base)
    found = extent.clip(held) if extent.surplus else extent.extrapolate(held)
    finding: Finding = "gone" if log_end is None else compare(found, known, extent.end)
    outcome = _OUTCOMES[finding]
    if outcome != "whole" and settled(finding, "extent", accept_loss):
        outcome = "accepted"
    return Return(topic, partition, extent.cluster, known, found, extent.end, outcome, extent.ignored)


def confirmed(extents: Sequence[Extent], found: Return) -> Extents:
    if found.open:
        return tuple(
            extent.changed(found_end=found.found_end)
            if extent.cluster == found.cluster and extent.known_end is not None
            else extent
            for extent in extents
        )
    return close(extents, found.cluster, min(found.found_end, found.cut))


def read_again(topic: Topic, cluster: str) -> Topic:
    """The topic with skipped extents of `cluster` served again."""
    served = {partition: skipping(extents, cluster, False) for partition, extents in topic.partitions.items()}
    return topic.changed(partitions=served)
