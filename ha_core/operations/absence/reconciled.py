"""What became of the tails of a cluster that was lost, and is back: partition by partition, and as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ha_core.model.cluster import NO_PROFILE
from ha_core.operations.copies.comparing import MirrorsCompared
from ha_core.operations.engine.report import Report

LOGIN = "LOGIN.properties"
"""Where a cluster wants one: in place of the file with a client's settings for it, which nobody here knows."""
Outcome = Literal["counted", "differs", "less", "gone", "other", "unknown"]
"""`differs`: below what was mirrored it has other records than the copy; the tail is counted. `less`: its log ends
below what was mirrored. `gone`: it does not have the topic any more. `other`: the topic was deleted and re-created.
`unknown`: its leader does not answer yet, or its replicas have not caught up."""


class TailFound(NamedTuple):
    """One partition of a cluster that is back. Offsets are those of the cluster."""

    topic: str
    partition: int
    operation: str
    """The forced switch that left it."""
    outcome: Outcome
    mirrored: int
    """Up to here it is in the copy."""
    start: int | None = None
    """Where the tail begins: above `mirrored` where retention has taken some of it."""
    end: int | None = None
    """Of the log."""
    records: int | None = None
    bytes: int | None = None
    aborted: int | None = None
    """Records beside these of transactions that were aborted; None: counted by an earlier version, among `records`."""
    differs_at: int | None = None
    """The first offset that differs from the copy, of those that were compared."""
    difference: str = ""

    def differing(self, offset: int, what: str) -> TailFound:
        """What was counted, of a log that is not what its copy is; any other outcome says more already."""
        if self.outcome != "counted":
            return self
        return self._replace(outcome="differs", differs_at=offset, difference=what)

    @property
    def deleted(self) -> int:
        """Offsets that retention has taken before anybody could count them."""
        return 0 if self.start is None else max(0, self.start - self.mirrored)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What became of a cluster's tails."""

    cluster: str
    bootstrap: str = ""
    found: tuple[TailFound, ...] = ()
    mirrored: tuple[str, ...] = ()
    """Topics that are mirrored to it from now on; in a dry run those that would be."""
    dry_run: bool = False
    not_mirrored: Mapping[str, str] = field(default_factory=dict)
    """Topic → why it is not."""
    put_off: tuple[str, ...] = ()
    """In words: what a rerun has to do."""
    reports: tuple[Report, ...] = ()
    compared: Mapping[str, MirrorsCompared] = field(default_factory=dict)
    """Topic → what was compared with its copy, below what was mirrored."""
    security: str = NO_PROFILE
    """The name of the security profile by which the cluster is reached."""

    @property
    def open(self) -> tuple[TailFound, ...]:
        """What an operator has to look at."""
        return tuple(one for one in self.found if one.outcome != "counted")

    @property
    def records(self) -> int:
        return sum(one.records or 0 for one in self.found)

    @property
    def needs_attention(self) -> bool:
        return bool(self.open or self.put_off or self.not_mirrored)

    def fetch(self, one: TailFound) -> str:
        """The command that shows the records."""
        if not one.records:
            return ""
        login = f"--consumer.config {LOGIN} " if self.wants_login else ""
        return (
            f"kafka-console-consumer --bootstrap-server {self.bootstrap} {login}--topic {one.topic} --partition "
            f"{one.partition} --offset {one.start} --isolation-level read_committed --max-messages {one.records}"
        )

    @property
    def wants_login(self) -> bool:
        """Whether `LOGIN` has to be put in place."""
        return self.security != NO_PROFILE

    def to_json(self) -> dict[str, Any]:
        return {
            "result": "succeeded" if not self.needs_attention else "open",
            "cluster": self.cluster,
            "records": self.records,
            "tails": [{**one._asdict(), "deleted": one.deleted, "fetch": self.fetch(one)} for one in self.found],
            ("would_mirror" if self.dry_run else "mirrored"): list(self.mirrored),
            "not_mirrored": dict(self.not_mirrored),
            "put_off": list(self.put_off),
            "compared": {topic: summary_of(one) for topic, one in self.compared.items()},
            "operations": [report.to_json() for report in self.reports],
        }


def summary_of(compared: MirrorsCompared) -> dict[str, Any]:
    """For the history."""
    ranges, of = compared.ranges
    return {
        "verify": "sample" if compared.sampled else "full",
        "equal": not compared.differing,
        "records": compared.records,
        "ranges": ranges,
        "of_ranges": of,
        **({"seed": compared.extent.seed} if compared.sampled else {}),
    }
