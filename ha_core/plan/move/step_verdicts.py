"""Verdicts that only the steps of a move find: damaged or differing copies, and producers that bypass the gateways."""

from collections.abc import Collection, Mapping

from ha_core.model import MoveRequest
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import Verdict, error, listed

MAX_TOPICS = 20
"""Per entry of an operation's history."""


def copies_differ(origin: str, target: str, differing: Mapping[Partition, tuple[int, str]]) -> tuple[Verdict, ...]:
    """A verdict for each topic.

    :param differing: partition → the first offset in the origin at which it differs, and the difference.
    """
    differences = grouped(
        (topic, f"partition {partition} at offset {offset} ({what})")
        for (topic, partition), (offset, what) in sorted(differing.items())
    )
    return tuple(
        error(
            "copy-differs",
            f"topic {topic}",
            f"The copy of topic {topic} in {target} differs from {origin}: {listed(places)}.",
            f"`switchyard mirror verify {topic} --to {target}` compares all of it. For a new copy end the mirror "
            f"(`switchyard mirror unlink {topic} --to {target}`), delete the topic in {target}, and link it again. To "
            "use the copy as it is: --verify none.",
            number=len(places),
            unit="partitions",
        )
        for topic, places in list(differences.items())[:MAX_TOPICS]
    )


def copies_damaged(
    request: MoveRequest, damaged: Mapping[str, str], partly: Collection[str], others: bool
) -> tuple[Verdict, ...]:
    """A verdict for each topic. None advises to delete a copy: its source is taken for dead, so it may be the last log.

    :param damaged: topic → why its copy cannot be used.
    :param partly: topics whose copies have a part known to be good.
    :param others: whether anything else is to move.
    """
    origin, target = request.origin, request.target
    leave = "With --damaged-copies leave the others move, and this one stays where it is. "
    way = leave if others and request.damaged_copies != "leave" else ""
    good = (
        "With --damaged-copies good-part it moves to its copy: readers get the part that is known to be its source's, "
        "and the rest is never read. "
    )
    alone = "" if others else " Nothing else is to move."
    return tuple(
        error(
            "copy-damaged",
            f"topic {topic}",
            f"Its copy in {target} cannot be used: {why}.{alone}",
            f"{good if topic in partly else ''}{way}If the copy log is missing, let all brokers of {target} come up. "
            f"Delete nothing there while {origin} may not come back: it may be the last log of this topic.",
        )
        for topic, why in sorted(damaged.items())[:MAX_TOPICS]
    )


def not_compared(origin: str, target: str, why: str) -> Verdict:
    return error(
        "not-compared",
        f"cluster {target}",
        f"Its copies cannot be compared with {origin}: {why}",
        "Repair that, or move without comparing: --verify none.",
        cause="away",
    )


def past_gateways(cluster: str, grown: Mapping[Partition, tuple[int, int]], way: str) -> tuple[Verdict, ...]:
    """A verdict for each topic.

    :param grown: partition → its log end before and after, in the cluster's own offsets.
    :param way: the way out.
    """
    ends_by_topic = grouped((topic, (partition, *ends)) for (topic, partition), ends in sorted(grown.items()))
    return tuple(
        error(
            "past-gateways",
            f"topic {topic}",
            f"A producer writes to topic {topic} in {cluster} without passing through the gateways: "
            f"{listed(f'partition {p} went from {low} to {high}' for p, low, high in found)}.",
            way,
            number=sum(high - low for _, low, high in found),
            unit="offsets",
        )
        for topic, found in list(ends_by_topic.items())[:MAX_TOPICS]
    )
