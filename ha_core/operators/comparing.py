"""Result of comparing mirrors with their sources."""

from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from ha_core.operators.base import SwitchyardOperator
from ha_core.plan.facts.verdict import amount

COMPARE = "compare"
"""The task that compares."""


class MirrorsEqualOperator(SwitchyardOperator):
    """Fail if a copy differs from its source, or could not be compared."""

    def __init__(self, *, proposal_of: str = COMPARE, **kwargs: Any) -> None:
        super().__init__(proposal_of=proposal_of, **kwargs)

    def work(self) -> dict[str, Any]:
        summary: dict[str, Any] = self.proposal()
        if not summary["partitions"] and not summary["failed"]:
            raise AirflowSkipException("No topic is mirrored.")
        partitions = amount(summary["partitions"], "partition")
        if not summary["equal"]:
            raise AirflowFailException(
                f"{summary['differing']} of {partitions} differ, {summary['failed']} could not be compared"
                f"{_incomplete(summary)}. {_words(summary['worst'][0]) if summary['worst'] else ''}"
            )
        sample = summary["sample"]
        what = f"a sample ({sample['share']:.1%}, seed {sample['seed']}) of" if sample else "all of"
        equal = f"{summary['compared']:,} records are equal in {what} {partitions}"
        self.done("; ".join([equal, *_not(summary)]))
        return summary


def _incomplete(summary: dict[str, Any]) -> str:
    lacking, nothing = summary["incomplete"], summary["not_compared"]
    words = f", {lacking} lack records of their sources" if lacking else ""
    return f"{words}, {nothing} not compared at all" if nothing else words


def _not(summary: dict[str, Any]) -> list[str]:
    """Offsets that were not compared, although they do not differ: operators who rely on a copy must know of them."""
    counts = ((summary["behind"], "are not copied yet"), (summary["gone_in_source"], "are deleted in the source since"))
    return [f"{count:,} offsets {words}" for count, words in counts if count]


def _words(worst: dict[str, Any]) -> str:
    place = f"{worst['topic']} from {worst['source']} to {worst['target']}"
    if worst["error"] is not None and worst["difference"] is None:
        return f"{place}: {worst['error']}"
    if worst["difference"] is None:
        return f"{place}, partition {worst['partition']}: {worst['why']}"
    return f"{place}, partition {worst['partition']}, offset {worst['first_difference']}: {worst['difference']}"
