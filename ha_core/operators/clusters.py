"""Clusters: take out of service, put back, and give up for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ha_core.hooks.airflow_names import AirflowSkipException
from ha_core.operators.base import MAX_LISTED, SwitchyardOperator
from ha_core.operators.forms import Flag, FormField, LinesField, RefusedRequestError, Text

if TYPE_CHECKING:
    from ha_core.operations.absence.given_up import GivingUp
    from ha_core.operations.clusters.masking import MaskOutcome


class _ClusterOperator(SwitchyardOperator):
    """Base of operators that change a cluster.

    :param cluster: its name.
    :param force: change it in spite of objections.
    """

    cluster: Any = Text()
    force: Any = Flag()


class LookAtClusterOperator(_ClusterOperator):
    """Log the dependents of a cluster, one per line, and the objections to the change. Changes nothing.

    Fails if there are objections; a dry run skips if there is nothing to do.

    :param change: `mask` or `unmask`.
    """

    change: Any = FormField()

    def work(self) -> dict[str, Any]:
        from ha_core.operations.clusters.masking import already_done, dependents_of, objections
        from ha_core.operations.engine.errors import unchanged
        from ha_core.present.state import depends_lines

        depends = dependents_of(self.environment, self.cluster)
        done = already_done(self.environment, self.cluster, self.change)
        against = objections(self.environment, self.cluster, self.change, depends, force=self.force)
        lines = [*depends_lines(self.cluster, depends)]
        self.propose(lines)
        document = depends.to_json()
        self.push_result(document)
        if against:
            raise unchanged(against)
        if done and self.dry_run:
            raise AirflowSkipException(done)
        self.would(f"would {self.change} {self.cluster}", objections=["none"], depends=lines)
        return document


class _ChangeClusterOperator(_ClusterOperator):
    """:param reason: kept with the cluster and in the history."""

    reason: Any = Text()
    preview_in: ClassVar[str] = "who depends on the cluster is in the log of the task before"

    def work(self) -> dict[str, Any]:
        finished = self.finish_own()
        changed = self.change()
        report = changed.report or next(iter(finished), None)
        self.log.info("%s", changed.words)
        if report is None:
            raise AirflowSkipException(changed.words)
        self.require_served(report)
        self.done(changed.words)
        return {**report.to_json(), "words": changed.words}

    def change(self) -> MaskOutcome:
        raise NotImplementedError


class MaskClusterOperator(_ChangeClusterOperator):
    """Take a cluster out of service in one revision: requests for it fail at once. Skipped if it is already masked.

    `force` masks it even if topics are written there.
    """

    def change(self) -> MaskOutcome:
        from ha_core.operations.clusters.masking import mask_cluster

        return mask_cluster(self.environment, self.cluster, self.reason, force=self.force)


class UnmaskClusterOperator(_ChangeClusterOperator):
    """Put a cluster back into service, after it has answered a health probe. Skipped if it is not masked."""

    def change(self) -> MaskOutcome:
        from ha_core.operations.clusters.masking import unmask_cluster

        return unmask_cluster(self.environment, self.cluster, self.reason)


class CountLossOperator(_ClusterOperator):
    """Count the records that are lost with a cluster that never comes back; `table` has the counts. Changes nothing.

    Skipped if there is nothing to give up. `force` counts even if the cluster answers.

    :param topics: names or patterns; none: all.
    """

    topics: Any = LinesField(())
    reason: Any = Text()

    def work(self) -> dict[str, Any]:
        plan, lost, _ = self._plan()
        self.push(SEEN, sorted(_ids(plan)))
        self.would(f"would give up {self.cluster} for good: {lost}", objections=["none"])
        return {**plan.to_json(), "result": "planned", "changed": False}

    def _plan(self) -> tuple[GivingUp, str, Sequence[Any]]:
        """The losses, a sentence about them, and reports of interrupted operations that were finished first."""
        from ha_core.operations.absence import given_up
        from ha_core.present.lifecycle import giving_up_lines, giving_up_page

        given_up.require_reason(self.cluster, self.reason)
        finished = self.finish_own()
        if not self.dry_run:
            given_up.end_interrupted(self.environment)
        plan = given_up.plan_giving_up(self.environment, self.cluster, self.topics, force=self.force)
        self.propose(giving_up_page(plan), MAX_LISTED)
        lost = next(giving_up_lines(plan))
        if not plan.losses and not finished:
            raise AirflowSkipException(lost)
        return plan, lost, finished


class GiveUpOperator(CountLossOperator):
    """Give up the remaining records of a cluster that never comes back. A dry run only counts them.

    It refuses to give up more than the task `proposal_of` has counted.
    """

    def work(self) -> dict[str, Any]:
        from ha_core.operations.absence import given_up
        from ha_core.operations.engine.errors import NotServedError

        if self.dry_run:
            return super().work()
        plan, lost, finished = self._plan()
        seen = set(self.proposal(SEEN))
        if more := sorted({extent.rpartition("@")[0] for extent in _ids(plan) - seen}):
            raise RefusedRequestError(
                f"More would be lost than `{self.proposal_of}` has shown: {', '.join(more[:5])}. Look again."
            )
        done = given_up.give_up(self.environment, plan, self.reason)
        self.say_reports([*finished, *done.reports])
        if not done.succeeded:
            why = [*done.put_off, *(report.error for report in done.reports if report.error)]
            raise NotServedError(f"Not all of it is given up, or served, yet: {'; '.join(why)}. Clear this task.")
        self.done(f"{self.cluster} is given up: {lost}")
        return done.to_json()


SEEN = "seen"
"""XCom key of the extents that the count has shown."""


def _ids(plan: GivingUp) -> set[str]:
    return {f"{topic}-{partition}@{start}" for topic, partition, start in plan.keys}
