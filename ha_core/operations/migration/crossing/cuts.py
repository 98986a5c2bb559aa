"""The cuts that a migration proposes: requested ones, by rates, and higher ones if logs were faster.

Growth rates come from a summary of recorded history, or else from two looks at the log ends.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.model import MigrateOperation, Topic
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.revisions import Touched
from ha_core.operations.migration.crossing.ends import EndsOfBoth, as_clients
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.migration.crossing_stages import crossings
from ha_core.plan.migration.cuts import Rate, Rates, cut_ahead, outrun_margin
from ha_core.plan.move.partitions import of_all

OUTRUN = 4
"""A log that passed its cut gets a new one this many times its growth since the choice of the first."""


def client_ends(
    journal: Journal[MigrateOperation], topics: Mapping[str, Topic], sides: EndsOfBoth
) -> dict[Partition, int]:
    """Client offsets of the origin's ends, for partitions that move: others of a topic may be elsewhere."""
    keys = of_all(journal.request, topics, sides.origin)
    return as_clients(topics, {key: sides.origin[key].log_end for key in keys})


def first_cuts(journal: Journal[MigrateOperation], sides: EndsOfBoth) -> dict[Partition, int]:
    """A cut for each partition: the requested one, else by its rate.

    :raises StepFailedError: a log has passed the requested cut.
    """
    topics = Touched.read(journal).view.topics
    given = journal.operation.evidence.cut_at
    cuts: dict[Partition, int] = {}
    for (name, partition), end in client_ends(journal, topics, sides).items():
        asked_for = given.get(name, {}).get(partition)
        if asked_for is not None and asked_for <= end:
            raise StepFailedError(
                f"The cut {asked_for} of {name}-{partition} is not above its log end, which is {end} by now. "
                "Choose a higher one, or leave it to the rate."
            )
        by_rate = cut_ahead(end, _rate(journal, (name, partition)), journal.request.preparation_s)
        cuts[name, partition] = by_rate if asked_for is None else asked_for
    return cuts


def higher_cuts(
    journal: Journal[MigrateOperation],
    topics: Mapping[str, Topic],
    ends: Mapping[Partition, int],
    late: Collection[Partition],
    before: Mapping[Partition, int],
    attempt: int,
) -> dict[Partition, int]:
    """Cuts for partitions that have passed theirs, and for others of these topics that are about to.

    With records spread over many partitions, each look would otherwise find some others passed. A requested cut stays
    until it is passed.

    :param ends: client ends now; `before`, if known, are those at the choice of the cuts.
    :param attempt: how many proposals have failed.
    """
    given, preparation_s = journal.operation.evidence.cut_at, journal.request.preparation_s
    cuts: dict[Partition, int] = {}
    for name in {name for name, _ in late}:
        proposed = {partition: target.start for partition, _, target in crossings(topics[name])}
        grown = {p: ends[name, p] - before.get((name, p), ends[name, p]) for p in proposed}
        margin = outrun_margin(grown.values(), [_rate(journal, (name, p)) for p in proposed], attempt)
        for partition, cut in proposed.items():
            end = ends[name, partition]
            if (name, partition) in late:
                by_rate = cut_ahead(end, _rate(journal, (name, partition)), preparation_s * 2**attempt)
                cuts[name, partition] = max(by_rate, end + OUTRUN * grown[partition], end + margin)
            elif cut < end + margin and partition not in given.get(name, {}):
                cuts[name, partition] = end + margin
    return cuts


def _rate(journal: Journal[MigrateOperation], key: Partition) -> float:
    """Records per second; a partition without a rate counts as idle."""
    return journal.operation.evidence.rates.get(key[0], {}).get(key[1], 0.0)


LOOKS_APART_S = 3.0
SAFETY = 2.0
"""Factor on a measured rate: some seconds say little about the next minutes."""


def looked_at(environment: Environment, origin: Admin, partitions: Collection[Partition]) -> Rates:
    """Rates from two looks at the log ends, some seconds apart."""
    if not partitions:
        return Rates({}, "there are no partitions to look at")
    first = origin.ends(partitions)
    begun = environment.monotonic()
    environment.sleep(LOOKS_APART_S)
    second = origin.ends(partitions)
    elapsed_s = max(environment.monotonic() - begun, 0.001)
    seen = {key: max(0, second[key].log_end - first[key].log_end) / elapsed_s for key in partitions}
    return Rates(
        {key: Rate(rate * SAFETY, rate, "two looks") for key, rate in seen.items()},
        f"twice the growth of the logs between two looks {elapsed_s:.1f} s apart, without a history",
    )


def from_summary(path: Path, cluster: str) -> Rates:
    """Rates from the summary of the `offsets` job: `{"partitions": [{"cluster", "topic", "partition", "rate",
    "upper_rate", "how"}, …]}`, records per second. The upper rate is taken if there is one. A row whose rate is a
    `default` was not measured, so it counts as missing. Further keys are ignored.

    :raises RefusedError: the file is not readable, or has another form.
    """
    try:
        document = json.loads(path.read_text())
        rows: list[dict[str, Any]] = document["partitions"]
        rates = {
            (str(row["topic"]), int(row["partition"])): _recorded(row)
            for row in rows
            if row.get("cluster") == cluster and row.get("how") != "default"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(
            f"The rates in {path} cannot be used ({type(error).__name__}: {error}). Give the summary of the job "
            "`offsets`, or leave --rates out: then the log ends are read twice."
        ) from error
    chance = document.get("chance")
    stated = f", passed too early with a chance of {chance:g}" if isinstance(chance, int | float) else ""
    return Rates(rates, f"the recorded history in {path.name}{stated}")


def _recorded(row: Mapping[str, Any]) -> Rate:
    highest = float(row.get("upper_rate") or row.get("rate") or 0.0)
    expected = highest if row.get("rate") is None else float(row["rate"])
    return Rate(highest, expected, f"history, {row['how']}" if row.get("how") else "history")
