"""Masking and unmasking a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import Context, DryRunEnds, SwitchyardOperator, run_owner


class LookAtClusterOperator(SwitchyardOperator):
    """Who depends on a cluster, line by line in the log, and what speaks against the change. Changes nothing.

    Fails where something speaks against it; a dry run skips where nothing is to be done.

    :param cluster: name.
    :param change: `mask` or `unmask`.
    """

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "cluster")

    def __init__(self, *, cluster: str, change: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self.change = change

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations.errors import RefusedError
        from ha_core.operations.mask import depends_lines, objections, stands_already, who_depends

        name = self.cluster.strip()
        with self.environment(context) as environment:
            depends = who_depends(environment, name)
            done = stands_already(environment, name, self.change)
            against = objections(environment, name, self.change, depends, force=bool(context["params"].get("force")))
        lines = [*depends_lines(name, depends)]
        for line in lines:
            self.log.info("%s", line)
        context["ti"].xcom_push(key="return_value", value=depends.to_json())
        if against:
            raise RefusedError(f"Nothing was changed. {' '.join(against)}")
        if done and context["params"].get("dry_run"):
            raise AirflowSkipException(done)
        self.would(context, f"would {self.change} {name}", objections=["none"], depends=lines)
        return depends.to_json()


class _ClusterOperator(SwitchyardOperator):
    """:param cluster: name; :param reason: kept with the cluster and in the history; :param dry_run: skip."""

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "cluster", "reason", "dry_run")

    def __init__(self, *, cluster: str, reason: str, dry_run: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self.reason = reason
        self.dry_run = dry_run

    def run_on(self, context: Context, change: Callable[[Any, str, str], Any]) -> dict[str, Any]:
        from ha_core.operations.errors import NotServedError
        from ha_core.operators.planning import truth
        from ha_core.operators.settling import settle_own
        from ha_core.operators.words import report_lines

        if truth(self.dry_run):
            raise DryRunEnds("This is a dry run: who depends on the cluster is in the log of the task before.")
        with self.environment(context) as environment:
            settled = settle_own(environment, run_owner(context))
            changed = change(environment, self.cluster.strip(), self.reason)
        report = changed.report or next(iter(settled), None)
        self.log.info("%s", changed.words)
        if report is None:
            raise AirflowSkipException(changed.words)
        for line in report_lines(report):
            self.log.info("%s", line)
        if report.result != "succeeded":
            raise NotServedError(report.error)
        self.done(context, changed.words)
        return {**report.to_json(), "words": changed.words}


class MaskClusterOperator(_ClusterOperator):
    """Take a cluster out of service in one revision: requests for it fail at once. Masked already: skipped.

    :param force: although topics are written there.
    """

    template_fields: Sequence[str] = (*_ClusterOperator.template_fields, "force")

    def __init__(self, *, force: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.force = force

    def work(self, context: Context) -> dict[str, Any]:
        from functools import partial

        from ha_core.operations.mask import mask_cluster
        from ha_core.operators.planning import truth

        return self.run_on(context, partial(mask_cluster, force=truth(self.force)))


class UnmaskClusterOperator(_ClusterOperator):
    """Put a cluster back into service, after it has answered a health probe. Not masked: skipped."""

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations.mask import unmask_cluster

        return self.run_on(context, unmask_cluster)
