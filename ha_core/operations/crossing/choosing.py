"""The cuts that a migration proposes: as they were asked for, by rates, and higher ones where logs were faster."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ha_core.model import Topic
from ha_core.model.topic import client_end
from ha_core.operations.crossing.ends import Sides
from ha_core.operations.documents import Touched
from ha_core.operations.errors import StepFailedError
from ha_core.operations.journal import Journal
from ha_core.operations.sides import asked
from ha_core.plan.crossing_stages import crossings
from ha_core.plan.cuts import cut_ahead, outrun_margin
from ha_core.plan.facts import Partition
from ha_core.plan.moving import of_all

OUTRUN = 4
"""A log that passed its cut is given so many times what it has grown since the cut was chosen."""


def client_ends(journal: Journal, topics: Mapping[str, Topic], sides: Sides) -> dict[Partition, int]:
    """The origin's ends of what moves, as client offsets: other partitions of a topic may be elsewhere."""
    request, _ = asked(journal.operation)
    return {
        key: client_end(topics.get(key[0]), key[1], sides.origin[key].log_end)
        for key in of_all(request, topics, sides.origin)
    }


def first_cuts(journal: Journal, sides: Sides) -> dict[Partition, int]:
    """A cut for each partition: the one that was asked for, else by its rate.

    :raises StepFailedError: a log has passed the cut that was asked for.
    """
    request, _ = asked(journal.operation)
    topics = Touched.read(journal).view.topics
    given = journal.operation.evidence.get("cut_at", {})
    cuts: dict[Partition, int] = {}
    for (name, partition), end in client_ends(journal, topics, sides).items():
        asked_for = given.get(name, {}).get(str(partition))
        if asked_for is not None and asked_for <= end:
            raise StepFailedError(
                f"The cut {asked_for} of {name}-{partition} does not lie above its log's end, which is {end} by now. "
                "Choose a higher one, or leave it to the rate."
            )
        by_rate = cut_ahead(end, _rate(journal, (name, partition)), request.preparation_s)
        cuts[name, partition] = by_rate if asked_for is None else asked_for
    return cuts


def higher_cuts(
    journal: Journal,
    topics: Mapping[str, Topic],
    ends: Mapping[Partition, int],
    late: Collection[Partition],
    before: Mapping[Partition, int],
    attempt: int,
) -> dict[Partition, int]:
    """Cuts for those that were passed, and for others of the same topics that are about to be.

    Where records are spread over many partitions, each look would find some others passed. A cut that was asked for
    stays until it is passed.

    :param topics: with the cuts that are proposed now.
    :param ends: client ends as they are now.
    :param before: the same when these were chosen; empty where that is not known.
    :param attempt: how many proposals have failed.
    """
    request, _ = asked(journal.operation)
    given = journal.operation.evidence.get("cut_at", {})
    cuts: dict[Partition, int] = {}
    for name in {name for name, _ in late}:
        proposed = {partition: target.start for partition, _, target in crossings(topics[name])}
        grown = {p: ends[name, p] - before.get((name, p), ends[name, p]) for p in proposed}
        rates = [_rate(journal, (name, p)) for p in proposed]
        margin = outrun_margin(grown.values(), rates, attempt)
        for partition, cut in proposed.items():
            end = ends[name, partition]
            if (name, partition) in late:
                by_rate = cut_ahead(end, _rate(journal, (name, partition)), request.preparation_s * 2**attempt)
                cuts[name, partition] = max(by_rate, end + OUTRUN * grown[partition], end + margin)
            elif cut < end + margin and str(partition) not in given.get(name, {}):
                cuts[name, partition] = end + margin
    return cuts


def _rate(journal: Journal, key: Partition) -> float:
    """Records per second; what has none counts as idle."""
    return float(journal.operation.evidence.get("rates", {}).get(key[0], {}).get(str(key[1]), 0.0))
