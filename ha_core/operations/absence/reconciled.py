"""The result of reconciling a returned cluster, also as a document."""

from dataclasses import dataclass, field
from typing import Any

from ha_core.model.cluster import NO_PROFILE
from ha_core.model.judgement import Judgement
from ha_core.operations.copies.comparing import MirrorsCompared
from ha_core.operations.engine.report import Report
from ha_core.plan.absence.decision import FINDINGS
from ha_core.plan.absence.reconciled import TailFound

LOGIN = "LOGIN.properties"
"""Stands for a file with a client's security settings for a cluster that needs one; they are unknown here."""


@dataclass(slots=True)
class Reconciled:
    """The result for a cluster's tails, so far."""

    cluster: str
    bootstrap: str = ""
    tails: tuple[TailFound, ...] = ()
    mirrored: tuple[str, ...] = ()
    """Topics that are mirrored to it from now on; in a dry run those that would be."""
    dry_run: bool = False
    not_mirrored: dict[str, str] = field(default_factory=dict)
    """Topic → why it is not mirrored."""
    put_off: tuple[str, ...] = ()
    """Texts about topics that a repetition has to reconcile."""
    reports: tuple[Report, ...] = ()
    compared: dict[str, MirrorsCompared] = field(default_factory=dict)
    """Topic → the comparison with its copy, below the mirrored end."""
    judged: dict[str, Judgement] = field(default_factory=dict)
    """Key of a tail → its findings in the form in which the history keeps them."""
    security: str = NO_PROFILE
    """The name of the cluster's security profile."""

    @property
    def open(self) -> tuple[TailFound, ...]:
        """Findings that wait for an operator."""
        return tuple(tail for tail in self.tails if FINDINGS[tail.outcome].waits_for)

    @property
    def records(self) -> int:
        return sum(tail.records or 0 for tail in self.tails)

    @property
    def needs_attention(self) -> bool:
        return bool(self.open or self.put_off or self.not_mirrored)

    def fetch(self, tail: TailFound) -> str:
        """The command that shows the records."""
        if not tail.records:
            return ""
        login = f"--consumer.config {LOGIN} " if self.wants_login else ""
        return (
            f"kafka-console-consumer --bootstrap-server {self.bootstrap} {login}--topic {tail.topic} --partition "
            f"{tail.partition} --offset {tail.start} --isolation-level read_committed --max-messages {tail.records}"
        )

    @property
    def wants_login(self) -> bool:
        """Whether the operator has to replace `LOGIN`."""
        return self.security != NO_PROFILE

    def to_json(self) -> dict[str, Any]:
        return {
            "result": "succeeded" if not self.needs_attention else "open",
            "cluster": self.cluster,
            "records": self.records,
            "tails": [{**tail._asdict(), "deleted": tail.deleted, "fetch": self.fetch(tail)} for tail in self.tails],
            ("would_mirror" if self.dry_run else "mirrored"): list(self.mirrored),
            "not_mirrored": dict(self.not_mirrored),
            "put_off": list(self.put_off),
            "compared": {topic: summary_of(comparison) for topic, comparison in self.compared.items()},
            "operations": [report.to_json() for report in self.reports],
        }


def summary_of(compared: MirrorsCompared) -> dict[str, Any]:
    """Detail for the history."""
    ranges, of = compared.ranges
    return {
        "verify": "sample" if compared.sampled else "full",
        "equal": not compared.differing,
        "records": compared.records,
        "ranges": ranges,
        "of_ranges": of,
        **({"seed": compared.extent.seed} if compared.sampled else {}),
    }
