"""Clusters taken out of service, put back, and given up for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import Context, DryRunEnds, RefusedRequestError, SwitchyardOperator
from ha_core.operators.dag_run import run_owner

if TYPE_CHECKING:
    from ha_core.operations.lifecycle.given_up import GivingUp


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
        from ha_core.operations.mask import objections, stands_already, who_depends
        from ha_core.present.state import depends_lines

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
        from ha_core.operators.base import settle_own, truth
        from ha_core.present.moves import report_page

        if truth(self.dry_run):
            raise DryRunEnds("This is a dry run: who depends on the cluster is in the log of the task before.")
        with self.environment(context) as environment:
            settled = settle_own(environment, run_owner(context))
            changed = change(environment, self.cluster.strip(), self.reason)
        report = changed.report or next(iter(settled), None)
        self.log.info("%s", changed.words)
        if report is None:
            raise AirflowSkipException(changed.words)
        self.say(report_page(report))
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
        from ha_core.operators.base import truth

        return self.run_on(context, partial(mask_cluster, force=truth(self.force)))


class UnmaskClusterOperator(_ClusterOperator):
    """Put a cluster back into service, after it has answered a health probe. Not masked: skipped."""

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations.mask import unmask_cluster

        return self.run_on(context, unmask_cluster)


MAX_LINES = 1_000
"""Of the task's log, of extents and of groups; the result has all."""


class GiveUpOperator(SwitchyardOperator):
    """Count what is lost with a cluster that never comes back; unless only to look, give it up.

    Skipped where there is nothing to give up. The form of the DAG run is read as it is: rendered it would lose its
    types.

    :param only_look: change nothing, and push the loss as `table` too.
    :param looked: what the task that looked has returned: never more is given up than that.
    """

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "looked")

    def __init__(self, *, only_look: bool = False, looked: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.only_look = only_look
        self.looked = looked

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations.errors import NotServedError
        from ha_core.operations.lifecycle import given_up
        from ha_core.operators.base import settle_own
        from ha_core.present.lifecycle import giving_up_lines, giving_up_page
        from ha_core.present.moves import report_page
        from ha_core.present.page import markdown

        form = context["params"]
        cluster, reason = str(form["cluster"]).strip(), str(form["reason"]).strip()
        with self.environment(context) as environment:
            given_up.require_reason(cluster, reason)
            settled = settle_own(environment, run_owner(context))
            if not form["dry_run"]:
                given_up.settle_interrupted(environment)
            plan = given_up.plan_giving_up(environment, cluster, form["topics"] or (), force=form["force"])
            self.say(giving_up_page(plan), MAX_LINES)
            if not plan.losses and not settled:
                raise AirflowSkipException(next(giving_up_lines(plan)))
            if self.only_look:
                context["ti"].xcom_push(key="table", value=markdown(giving_up_page(plan)))
            lost = next(giving_up_lines(plan))
            if self.only_look or form["dry_run"]:
                self.would(context, f"would give up {cluster} for good: {lost}", objections=["none"])
                return {**plan.to_json(), "result": "planned", "changed": False}
            self._require_seen(plan)
            done = given_up.give_up(environment, plan, reason)
        for report in (*settled, *done.reports):
            self.say(report_page(report))
        if not done.succeeded:
            why = [*done.put_off, *(report.error for report in done.reports if report.error)]
            raise NotServedError(f"Not all of it is given up, or served, yet: {'; '.join(why)}. Clear this task.")
        self.done(context, f"{cluster} is given up: {lost}")
        return done.to_json()

    def _require_seen(self, plan: GivingUp) -> None:
        seen = {(one["topic"], one["partition"], one["term"]) for one in self.looked["extents"]}
        more = sorted({f"{topic}-{partition}" for topic, partition, _ in plan.keys - seen})
        if more:
            raise RefusedRequestError(
                f"Nothing was changed. More would be lost than `plan` has shown: {', '.join(more[:5])}. Look again."
            )
