"""Masking and unmasking a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import Context, SwitchyardOperator


class _ClusterOperator(SwitchyardOperator):
    """:param cluster: name; :param reason: kept with the cluster and in the history."""

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "cluster", "reason")

    def __init__(self, *, cluster: str, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self.reason = reason

    def run_on(self, context: Context, change: Callable[[Any, str, str], Any]) -> dict[str, Any]:
        from ha_core.moves.errors import NotServedError
        from ha_core.operators.settling import settle_own
        from ha_core.operators.words import report_lines

        with self.environment(context) as environment:
            settled = settle_own(environment)
            outcome = change(environment, self.cluster, self.reason)
        report = outcome.report or next(iter(settled), None)
        self.log.info("%s", outcome.words)
        if report is None:
            raise AirflowSkipException(f"Nothing was to be done. {outcome.words}")
        for line in report_lines(report):
            self.log.info("%s", line)
        if report.result != "succeeded":
            raise NotServedError(report.error)
        return {**report.to_json(), "words": outcome.words}


class MaskClusterOperator(_ClusterOperator):
    """Take a cluster out of service in one revision: nothing new moves to it. Masked already: skipped."""

    def execute(self, context: Context) -> dict[str, Any]:
        from ha_core.moves.mask import mask_cluster

        return self.run_on(context, mask_cluster)


class UnmaskClusterOperator(_ClusterOperator):
    """Put a cluster back into service, after it has answered a health probe. Not masked: skipped."""

    def execute(self, context: Context) -> dict[str, Any]:
        from ha_core.moves.mask import unmask_cluster

        return self.run_on(context, unmask_cluster)
