"""The end of a run: release everything that it holds, and report its outcome."""

import logging
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import TriggerRule

from ha_core.operators.base import Context, RunFailedError, SwitchyardOperator, show
from ha_core.operators.dag_run import approval_of, of_run, rejected, responder, run_owner, started_by
from ha_core.operators.outcome import TOLD, RunOutcome, TaskResult, outcome, shown

log = logging.getLogger("switchyard.airflow")
STEADY: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=2)}
"""The tasks that end a run have more retries."""


def warn_of_fence(context: Context) -> None:
    """Callback for the tasks that end a run: after their last try clients may still wait for a fence."""
    log.critical(
        "A FENCE MAY STILL STAND, and clients wait for it: the end of the run %s has failed (%s). Clear its task "
        "release; or see with `switchyard status` which operations are by this run, and end them with `switchyard "
        "resume OPERATION`.",
        run_owner(context),
        context.get("exception") or "no reason given",
    )


class ReleaseOperator(SwitchyardOperator):
    """Teardown: no fence and no lock of this run is left, whatever happened before.

    Before the cut the operation is undone; after it, it is finished. Operations are found by the run's name, so this
    needs nothing from tasks that may have died.
    """

    ends_run: ClassVar[bool] = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**STEADY, "on_failure_callback": warn_of_fence, **kwargs})

    def work(self) -> list[str]:
        from ha_core.operations.running import engine
        from ha_core.plan.facts.verdict import listed

        self.environment.store.end_approval(run_owner(self.context))
        ids = self.started()
        released = [engine.release(self.environment, operation_id) for operation_id in ids]
        ended = [*filter(None, released), *self.finish_own()]
        crossing = {report.operation for report in ended if report.result == "crossing"}
        locks = [lock for lock in self.environment.store.locks() if of_run(lock.by, run_owner(self.context))]
        held = [lock.key for lock in locks if lock.operation not in crossing]
        self.say_reports(ended)
        if held:
            raise RuntimeError(f"Locks of this run still stand: {listed(held)}. Clear this task to try again.")
        self.log.info("no fence and no lock of this run is left")
        if crossing:
            self.log.info("%d operations cross over by themselves; `settle_migrations` ends them", len(crossing))
        return [report.operation for report in ended]

    def started(self) -> list[str]:
        """Ids of the operations with several revisions that the run has started."""
        return started_by(self.context, self.environment)


class OutcomeOperator(SwitchyardOperator):
    """The run's result: its outcome in the first line, then the return value of the deciding task.

    It always runs, and fails if any task failed. It is the only leaf that is no teardown, so a run fails with its worst
    task, and still has a result.
    """

    ends_run: ClassVar[bool] = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"trigger_rule": TriggerRule.ALL_DONE, **STEADY, **kwargs})

    def work(self) -> dict[str, Any]:
        answer = approval_of(self.context)
        task_outcome = outcome(self._told(), responder(answer) if rejected(answer) else None)
        run_outcome, details = self._with_details(task_outcome)
        self.log.info("%s", run_outcome.line)
        show(self.context, shown(run_outcome))
        self.push("outcome", run_outcome.line)  # the UI folds the result, but not this
        document = {"outcome": run_outcome.line, **(run_outcome.by.more if run_outcome.by else {}), **details}
        if run_outcome.failed:
            self.push_result(document)
            raise RunFailedError(run_outcome.line)
        return document

    def _with_details(self, task_outcome: RunOutcome) -> tuple[RunOutcome, dict[str, Any]]:
        """Adds details from the store. A failed run is reported without them: the store may be what failed it."""
        try:
            run_outcome = self.judged(task_outcome)
            return run_outcome, self.details(run_outcome)
        except Exception as error:
            if not task_outcome.failed:
                raise  # Airflow retries
            self.log.warning("the result has no details, because they could not be read: %s", error)
            return task_outcome, {}

    def judged(self, run_outcome: RunOutcome) -> RunOutcome:
        """The outcome of the whole run, if tasks only know their part."""
        return run_outcome

    def details(self, run_outcome: RunOutcome) -> dict[str, Any]:
        returned = self.context["ti"].xcom_pull(task_ids=run_outcome.by.task) if run_outcome.by else None
        return dict(returned) if isinstance(returned, Mapping) else {}

    def _told(self) -> list[TaskResult]:
        instance, run_id = self.context["ti"], self.context["dag_run"].run_id
        before = {task.task_id for task in self.get_flat_relatives(upstream=True)}
        names = [task.task_id for task in self.dag.topological_sort() if task.task_id in before]
        states = instance.get_task_states(dag_id=self.dag_id, run_ids=[run_id]).get(run_id, {})
        return [_told(instance, name, states) for name in names]


def _told(instance: Any, name: str, states: Mapping[str, str | None]) -> TaskResult:
    """Result of a task; for a mapped one, that of the first instance that has any."""
    task_states = tuple(str(state) for key, state in sorted(states.items()) if re.fullmatch(rf"{name}(_\d+)?", key))
    if not set(task_states) - {"upstream_failed", "removed", "None"}:
        return TaskResult(name, task_states)
    pulled = instance.xcom_pull(task_ids=name, key=TOLD)
    several = pulled if isinstance(pulled, list | tuple) else [pulled]
    first = next((one for one in several if isinstance(one, dict)), {})
    kind, text, short = (str(first.pop(key, "")) for key in ("kind", "text", "short"))
    return TaskResult(name, task_states, kind, text, short, first)
