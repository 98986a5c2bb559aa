"""Pre-flight of cuts that lie ahead: which topics need the fence after all, and what would not be exact."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ha_core.model import GatewayRecord, MoveRequest, View
from ha_core.model.topic import client_end
from ha_core.plan.facts import Facts, Partition
from ha_core.plan.verdict import Verdict, error, info, listed, warning

_BEFORE_FORMAT_2 = ("0.8", "0.9", "0.10")
_MIN_IN_SYNC = "min.insync.replicas"


def barriers(topics: Collection[str], request: MoveRequest, facts: Facts) -> dict[str, str]:
    """Topics that a cut ahead cannot be exact for, with the reason: they take the barrier."""
    found: dict[str, str] = {}
    origin = facts.clusters.get(request.origin)
    for name in topics:
        here = facts.topic(request.origin, name)
        if here is None or not here.exists:
            continue
        version = here.config.get("message.format.version", "")
        if origin is not None and not origin.describe_producers:
            found[name] = (
                f"{request.origin} does not offer DESCRIBE_PRODUCERS (Kafka 2.8 and newer), so what producers had "
                "below the cut could not be told"
            )
        elif here.transactional:
            found[name] = "it has transactional producers, and a transaction cannot be split at a cut"
        elif version.startswith(_BEFORE_FORMAT_2):
            found[name] = f"its batches are of format {version}, whose sequences do not say what lies below a cut"
    return found


def crossing_verdicts(
    view: View,
    request: MoveRequest,
    topics: Collection[str],
    facts: Facts,
    in_sync: Mapping[str, int],
    gateways: Collection[GatewayRecord],
) -> Iterator[Verdict]:
    """What speaks against cuts ahead, for the `topics` that take them.

    :param in_sync: cluster → its brokers' default of min.insync.replicas.
    """
    old = [gateway for gateway in gateways if not gateway.crossings]
    if old:
        yield error(
            "old-gateways",
            "gateways",
            f"{listed(f'{g.id} ({g.host}:{g.port})' for g in old)} does not know cuts that lie ahead: it would write "
            "to the target at once.",
            "Replace these gateways by newer ones first, or migrate with --cut barrier.",
        )
    for name in topics:
        about, topic = f"topic {name}", view.topics.get(name)
        if topic is not None and topic.crossing is not None:
            yield error(
                "migrating",
                about,
                f"Topic {name} is migrating already, in operation {topic.crossing.operation}.",
                f"`switchyard migrations` shows it; `switchyard rollback {topic.crossing.operation}` takes it back.",
            )
        yield from _in_sync(request, name, facts, in_sync)
        here = facts.topic(request.origin, name)
        if here is not None and here.compacted:
            yield warning(
                "compacted-above-cut",
                about,
                f"Topic {name} is compacted: if {request.origin} compacts what lies above a cut before the topic has "
                "crossed over, the last sequences of its producers are not known, and a batch whose answer was lost "
                "may be appended again.",
                "Take --cut barrier if no record may come twice.",
            )


def _in_sync(request: MoveRequest, name: str, facts: Facts, in_sync: Mapping[str, int]) -> Iterator[Verdict]:
    here, there = facts.topic(request.origin, name), facts.topic(request.target, name)
    if here is None or there is None or not here.exists:
        return
    demanded = _number(here.config.get(_MIN_IN_SYNC), in_sync.get(request.origin, 1))
    if there.exists:
        offered = _number(there.config.get(_MIN_IN_SYNC), in_sync.get(request.target, 1))
    else:
        target = facts.clusters.get(request.target)
        offered = demanded if target is None else min(demanded, len(target.brokers))
    if offered < demanded:
        yield error(
            "less-safe",
            f"topic {name}",
            f"{request.origin} acknowledges records of topic {name} with {demanded} replicas in sync, "
            f"{request.target} with {offered}: what crosses over would be less safe.",
            f"Raise {_MIN_IN_SYNC} in {request.target}, or take a target with more brokers.",
        )


def cut_verdicts(
    view: View,
    request: MoveRequest,
    given: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    idle: Collection[Partition],
) -> Iterator[Verdict]:
    """What speaks against single cuts.

    :param given: cuts that were asked for, client offsets.
    :param ends: the origin's log ends, of all partitions that take a cut ahead.
    :param idle: partitions to which nothing was written lately.
    """
    for key, cut in sorted(given.items()):
        name, partition = key
        if key not in ends:
            yield error(
                "no-predicted-cut",
                f"topic {name}",
                f"A cut at {cut} was asked for partition {partition} of topic {name}, which does not take one.",
                "Correct --cut-at: TOPIC:PARTITION=OFFSET, of topics that migrate with a predicted cut.",
            )
            continue
        end = client_end(view.topics.get(name), partition, ends[key])
        if cut <= end:
            yield error(
                "cut-below-end",
                f"topic {name}",
                f"The cut {cut} of partition {partition} of topic {name} does not lie above its log's end, {end}.",
                "Choose a higher offset, or leave it to the rate.",
            )
    if idle:
        ways = (
            f"behind a fence {request.finish_after_s:g} s after the crossing was opened"
            if request.finish_after_s
            else "with `switchyard resume OPERATION --finish-with-barrier`"
        )
        yield info(
            "idle-partitions",
            "idle partitions",
            f"Nothing was written lately to {len(idle)} partitions ({listed(f'{t}-{p}' for t, p in sorted(idle))}): "
            "each reaches its cut with its next record. Until then the rest of its topic is written to both clusters.",
            f"Nothing; they can be ended {ways}.",
        )


def _number(value: str | None, default: int) -> int:
    return int(value) if value is not None and value.isdecimal() else default
