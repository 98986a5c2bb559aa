"""Clusters taken out of service, put back, and given up for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import MAX_LISTED, Context, SwitchyardOperator
from ha_core.operators.forms import Flag, FormField, RefusedRequestError, Text

if TYPE_CHECKING:
    from ha_core.operations.environment import Environment
    from ha_core.operations.lifecycle.given_up import GivingUp
    from ha_core.operations.mask import MaskOutcome


class _ClusterOperator(SwitchyardOperator):
    """Something about a cluster.

    :param cluster: its name.
    :param force: although something speaks against it.
    """

    cluster: Any = Text("cluster")
    force: Any = Flag("force")


class LookAtClusterOperator(_ClusterOperator):
    """Who depends on a cluster, line by line in the log, and what speaks against the change. Changes nothing.

    Fails where something speaks against it; a dry run skips where nothing is to be done.

    :param change: `mask` or `unmask`.
    """

    change: Any = FormField("change")

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations.errors import RefusedError
        from ha_core.operations.mask import objections, stands_already, who_depends
        from ha_core.present.state import depends_lines

        with self.environment(context) as environment:
            depends = who_depends(environment, self.cluster)
            done = stands_already(environment, self.cluster, self.change)
            against = objections(environment, self.cluster, self.change, depends, force=self.force)
        lines = [*depends_lines(self.cluster, depends)]
        self.say(lines)
        document = depends.to_json()
        self.push_result(context, document)
        if against:
            raise RefusedError(f"Nothing was changed. {against}")
        if done and self.dry_run:
            raise AirflowSkipException(done)
        self.would(context, f"would {self.change} {self.cluster}", objections=["none"], depends=lines)
        return document


class _ChangeClusterOperator(_ClusterOperator):
    """:param reason: kept with the cluster and in the history."""

    reason: Any = Text("reason")
    told_before: ClassVar[str] = "who depends on the cluster is in the log of the task before"

    def work(self, context: Context) -> dict[str, Any]:
        with self.environment(context) as environment:
            finished = self.finish_own(context, environment)
            changed = self.change(environment)
        report = changed.report or next(iter(finished), None)
        self.log.info("%s", changed.words)
        if report is None:
            raise AirflowSkipException(changed.words)
        self.require_served(report)
        self.done(context, changed.words)
        return {**report.to_json(), "words": changed.words}

    def change(self, environment: Environment) -> MaskOutcome:
        raise NotImplementedError


class MaskClusterOperator(_ChangeClusterOperator):
    """Take a cluster out of service in one revision: requests for it fail at once. Masked already: skipped.

    With `force`, although topics are written there.
    """

    def change(self, environment: Environment) -> MaskOutcome:
        from ha_core.operations.mask import mask_cluster

        return mask_cluster(environment, self.cluster, self.reason, force=self.force)


class UnmaskClusterOperator(_ChangeClusterOperator):
    """Put a cluster back into service, after it has answered a health probe. Not masked: skipped."""

    def change(self, environment: Environment) -> MaskOutcome:
        from ha_core.operations.mask import unmask_cluster

        return unmask_cluster(environment, self.cluster, self.reason)


class CountLossOperator(_ClusterOperator):
    """Count what is lost with a cluster that never comes back; `table` has it for people. Changes nothing.

    Skipped where there is nothing to give up. With `force`, although the cluster answers.

    :param topics: names or patterns; none: all.
    """

    topics: Any = FormField("topics", ())
    reason: Any = Text("reason")

    def work(self, context: Context) -> dict[str, Any]:
        with self.environment(context) as environment:
            plan, lost, _ = self._plan(context, environment)
        context["ti"].xcom_push(key=SEEN, value=sorted(_ids(plan)))
        return self._would(context, plan, lost)

    def _plan(self, context: Context, environment: Environment) -> tuple[GivingUp, str, Sequence[Any]]:
        """What would be lost, in a sentence too, and reports of what was brought to its end before."""
        from ha_core.operations.lifecycle import given_up
        from ha_core.present.lifecycle import giving_up_lines, giving_up_page

        given_up.require_reason(self.cluster, self.reason)
        finished = self.finish_own(context, environment)
        if not self.dry_run:
            given_up.end_interrupted(environment)
        plan = given_up.plan_giving_up(environment, self.cluster, self.topics or (), force=self.force)
        self.propose(context, giving_up_page(plan), MAX_LISTED)
        lost = next(giving_up_lines(plan))
        if not plan.losses and not finished:
            raise AirflowSkipException(lost)
        return plan, lost, finished

    def _would(self, context: Context, plan: GivingUp, lost: str) -> dict[str, Any]:
        self.would(context, f"would give up {self.cluster} for good: {lost}", objections=["none"])
        return {**plan.to_json(), "result": "planned", "changed": False}


class GiveUpOperator(CountLossOperator):
    """Give up what a cluster that never comes back still holds; in a dry run only count it.

    Never more is given up than the task `proposal_of` has counted.
    """

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations.errors import NotServedError
        from ha_core.operations.lifecycle import given_up

        with self.environment(context) as environment:
            plan, lost, finished = self._plan(context, environment)
            if self.dry_run:
                return self._would(context, plan, lost)
            seen = set(context["ti"].xcom_pull(task_ids=self.proposal_of, key=SEEN))
            if more := sorted({extent.rpartition("@")[0] for extent in _ids(plan) - seen}):
                raise RefusedRequestError(
                    f"Nothing was changed. More would be lost than `{self.proposal_of}` has shown: "
                    f"{', '.join(more[:5])}. Look again."
                )
            done = given_up.give_up(environment, plan, self.reason)
        self.say_reports([*finished, *done.reports])
        if not done.succeeded:
            why = [*done.put_off, *(report.error for report in done.reports if report.error)]
            raise NotServedError(f"Not all of it is given up, or served, yet: {'; '.join(why)}. Clear this task.")
        self.done(context, f"{self.cluster} is given up: {lost}")
        return done.to_json()


SEEN = "seen"
"""Key of the extents that the count has shown."""


def _ids(plan: GivingUp) -> set[str]:
    return {f"{topic}-{partition}@{term}" for topic, partition, term in plan.keys}
