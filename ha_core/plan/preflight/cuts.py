"""Pre-flight of cuts: holes of forced ones; topics that need a fence after all, and inexact results, of cuts ahead."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ha_core.model import MoveRequest, View
from ha_core.model.topic import client_end
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.verdict import Verdicts, amount, error, info, listed, warning
from ha_core.plan.migration.cuts import Rates, hole, least_rate
from ha_core.plan.preflight.case import PreflightCase


def holes(case: PreflightCase) -> Verdicts:
    """Effect of a forced cut on clients that count offsets as records."""
    request = case.request
    topics = [name for name in case.moves.topics if case.writer(name) == request.origin]
    if request.mode != "forced" or not topics:
        return
    least = hole(0.0, request.max_rate_records_s)
    yield warning(
        "offset-hole",
        f"cluster {request.origin}",
        f"Between the last known end and the cut of each partition are {least:,} offsets or more without a record. "
        "Clients read over them; lag alarms and KEDA take them for lag until a reader is above the cut, and Spark's "
        "maxOffsetsPerTrigger spends its portions on them.",
        "docs/migrating.md shows how readers seek over the hole; --max-rate-records-s makes it shorter.",
        number=least,
        unit="offsets",
    )


def rates(case: PreflightCase) -> Verdicts:
    """The operator's bound on the rate is accepted only if it is far above all measured rates."""
    bound = case.request.max_rate_records_s
    if bound is None:
        return
    for name in case.moves.topics:
        here, about = case.here(name), f"topic {name}"
        measured = None if here is None else here.fastest
        if measured is None:
            text = f"The rate of topic {name} in {case.request.origin} was never measured."
            yield error("rate-too-low", about, text, "Leave --max-rate-records-s out.")
        elif bound < (least := least_rate(measured)):
            text = (
                f"A partition of topic {name} received {measured:,.0f} records/s between two readings. With a bound of "
                f"{bound:,}, records that {case.request.origin} acknowledged may be above the cut."
            )
            remedy = f"Give --max-rate-records-s {least} or more, or leave it out."
            yield error("rate-too-low", about, text, remedy, number=least, unit="records")


def old_gateways(case: PreflightCase) -> Verdicts:
    old = [gateway for gateway in case.gateways if not gateway.crossings]
    if old and case.request.cut == "predicted":
        yield error(
            "old-gateways",
            "gateways",
            f"{listed(f'{g.id} ({g.host}:{g.port})' for g in old)} does not support cuts that lie ahead: it would "
            "write to the target at once.",
            "Replace these gateways by newer ones first, or migrate with --cut barrier.",
        )


def barriers(case: PreflightCase) -> Verdicts:
    for name, why in case.barriers.items():
        yield warning("takes-barrier", f"topic {name}", f"Topic {name} takes the barrier: {why}.", "Nothing.")


def migrating(case: PreflightCase) -> Verdicts:
    for name in case.ahead:
        topic = case.view.topics.get(name)
        if topic is not None and topic.crossing is not None:
            yield error(
                "migrating",
                f"topic {name}",
                f"Topic {name} is migrating already, in operation {topic.crossing.operation}.",
                f"`switchyard migrations` shows it; `switchyard rollback {topic.crossing.operation}` takes it back.",
            )


def less_safe(case: PreflightCase) -> Verdicts:
    origin, target = case.request.origin, case.request.target
    brokers = case.facts.clusters.get(target)
    for name in case.ahead:
        here, there = case.here(name), case.facts.topic(target, name)
        if here is None or there is None:
            continue
        demanded = here.min_in_sync
        if there.exists:
            offered = there.min_in_sync
        else:
            offered = demanded if brokers is None else min(demanded, len(brokers.brokers))
        if offered < demanded:
            yield error(
                "less-safe",
                f"topic {name}",
                f"{origin} acknowledges records of topic {name} with {demanded} replicas in sync, {target} with "
                f"{offered}: records that cross would be less safe.",
                f"Raise min.insync.replicas in {target}, or take a target with more brokers.",
            )


def compacted(case: PreflightCase) -> Verdicts:
    for name in case.ahead:
        here = case.here(name)
        if here is not None and here.compacted:
            yield warning(
                "compacted-above-cut",
                f"topic {name}",
                f"Topic {name} is compacted: if {case.request.origin} compacts records above a cut before the topic "
                "has crossed over, the last sequences of its producers are not known, and a batch whose answer was "
                "lost may be appended again.",
                "Take --cut barrier if no record may come twice.",
            )


@dataclass(frozen=True, slots=True)
class Cuts:
    """Cuts ahead: the operator's (`given`, client offsets), else chosen by the rate."""

    view: View
    request: MoveRequest
    ends: Mapping[Partition, int]
    """The origin's log ends of all partitions with a cut ahead."""
    rates: Rates
    given: Mapping[Partition, int] = field(default_factory=dict)

    def end(self, key: Partition) -> int:
        """The log end as a client offset."""
        return client_end(self.view.topics.get(key[0]), key[1], self.ends[key])


def asked_for(cuts: Cuts) -> Verdicts:
    for key, cut in sorted(cuts.given.items()):
        name, partition = key
        if key not in cuts.ends:
            yield error(
                "no-predicted-cut",
                f"topic {name}",
                f"--cut-at names {cut} for partition {partition} of topic {name}, which takes no predicted cut.",
                "Correct --cut-at: TOPIC:PARTITION=OFFSET, of topics that migrate with a predicted cut.",
            )
        elif cut <= (end := cuts.end(key)):
            yield error(
                "cut-below-end",
                f"topic {name}",
                f"The cut {cut} of partition {partition} of topic {name} is not above its log end, {end}.",
                "Choose a higher offset, or leave the choice to the rate.",
            )


def idle(cuts: Cuts) -> Verdicts:
    """Partitions without recent writes."""
    still = sorted(key for key in cuts.ends if not cuts.rates.of(key).highest and key not in cuts.given)
    if still:
        after_s = cuts.request.finish_after_s
        ways = (
            f"under a fence {after_s:g} s after the crossing was opened"
            if after_s
            else "with `switchyard resume OPERATION --finish-with-barrier`"
        )
        yield info(
            "idle-partitions",
            "idle partitions",
            f"Nothing was written recently to {amount(len(still), 'partition')} "
            f"({listed(f'{t}-{p}' for t, p in still)}): each reaches its cut with its next "
            "record. Until then the rest of its topic is written to both clusters.",
            f"Nothing; they can be ended {ways}.",
        )
