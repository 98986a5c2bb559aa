"""What the comparison of mirrors with their sources comes to."""

from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from ha_core.operators.base import SwitchyardOperator
from ha_core.plan.facts.verdict import amount

COMPARE = "compare"
"""The task that compares, whose summary is judged."""


class MirrorsEqualOperator(SwitchyardOperator):
    """Fail where a copy does not have what its source has, or where that could not be found out."""

    def __init__(self, *, proposal_of: str = COMPARE, **kwargs: Any) -> None:
        super().__init__(proposal_of=proposal_of, **kwargs)

    def work(self) -> dict[str, Any]:
        found: dict[str, Any] = self.proposal()
        if not found["partitions"] and not found["failed"]:
            raise AirflowSkipException("No topic is mirrored.")
        partitions = amount(found["partitions"], "partition")
        if not found["equal"]:
            raise AirflowFailException(
                f"{found['differing']} of {partitions} differ, {found['failed']} could not be compared"
                f"{_incomplete(found)}. {_words(found['worst'][0]) if found['worst'] else ''}"
            )
        sample = found["sample"]
        what = f"a sample ({sample['share']:.1%}, seed {sample['seed']}) of" if sample else "all of"
        equal = f"{found['compared']:,} records are equal in {what} {partitions}"
        self.done("; ".join([equal, *_not(found)]))
        return found


def _incomplete(found: dict[str, Any]) -> str:
    lacking, nothing = found["incomplete"], found["not_compared"]
    words = f", {lacking} lack records of their sources" if lacking else ""
    return f"{words}, {nothing} not compared at all" if nothing else words


def _not(found: dict[str, Any]) -> list[str]:
    """What was not compared, and is no difference: who relies on a copy is to know of it."""
    counts = ((found["behind"], "are not copied yet"), (found["gone_in_source"], "are deleted in the source since"))
    return [f"{count:,} offsets {words}" for count, words in counts if count]


def _words(worst: dict[str, Any]) -> str:
    place = f"{worst['topic']} from {worst['source']} to {worst['target']}"
    if worst["error"] is not None and worst["difference"] is None:
        return f"{place}: {worst['error']}"
    if worst["difference"] is None:
        return f"{place}, partition {worst['partition']}: {worst['why']}"
    return f"{place}, partition {worst['partition']}, offset {worst['first_difference']}: {worst['difference']}"
