"""The end of a run: release everything that it holds, and report its outcome."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import TriggerRule

from ha_core.operators.base import SAID, Context, RunFailedError, SwitchyardOperator, show
from ha_core.operators.dag_run import (
    approval_of,
    of_run,
    provenance_of,
    rejected,
    responder,
    run_owner,
    started_by,
)
from ha_core.operators.deadlines import MISSED
from ha_core.operators.outcome import (
    DRY_RUN,
    NOTHING,
    REJECTED,
    TOLD,
    RunOutcome,
    TaskResult,
    outcome,
    shown,
    with_ending,
)
from ha_core.present.page import Marked, Page
from ha_core.present.page_document import page_of
from ha_core.present.run_page import NextSteps, run_page, steps_after_dry_run, steps_of

if TYPE_CHECKING:
    from ha_core.model import Operation

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
        results = self._told()
        task_outcome = outcome(results, responder(answer) if rejected(answer) else None)
        run_outcome, details, steps = self._with_details(task_outcome)
        own, self._said = self._said, []
        missed = self._missed(results)
        pages = [*self._pages_of(results, run_outcome), own, [Marked(words, "warning") for words in missed]]
        super()._write_log(run_page(run_outcome.line, provenance_of(self.context), pages, steps), None)
        show(self.context, shown(run_outcome, steps.line))
        # The UI folds the result, but not this.
        self.push("outcome", with_ending(run_outcome.line, steps.line))
        more: dict[str, Any] = {MISSED: missed} if missed else {}
        more |= {"next": [*steps.next], **({"back": steps.back} if steps.back else {})}
        document = {"outcome": run_outcome.line, **(run_outcome.by.more if run_outcome.by else {}), **details, **more}
        if run_outcome.failed:
            self.push_result(document)
            raise RunFailedError(run_outcome.line)
        return document

    def _write_log(self, page: Page, max_rows: int | None) -> None:
        """Only collects: `work` writes all of it in one page, below the outcome."""
        self._said += page

    def _with_details(self, task_outcome: RunOutcome) -> tuple[RunOutcome, dict[str, Any], NextSteps]:
        """Adds details from the store. A failed run is reported without them: the store may be what failed it."""
        try:
            run_outcome = self.judged(task_outcome)
            return run_outcome, self.details(run_outcome), self._next_steps(run_outcome, known=True)
        except Exception as error:
            if not task_outcome.failed:
                raise  # Airflow retries
            self.log.warning("the result has no details, because they could not be read: %s", error)
            return task_outcome, {}, self._next_steps(task_outcome)

    def _next_steps(self, run_outcome: RunOutcome, *, known: bool = False) -> NextSteps:
        """:param known: whether the run's operations can be read."""
        if run_outcome.kind == DRY_RUN:
            return steps_after_dry_run()
        if run_outcome.kind in {REJECTED, NOTHING}:
            return NextSteps()
        return steps_of(run_outcome.line, self.operations() if known else (), failed=run_outcome.failed)

    def operations(self) -> Sequence[Operation]:
        """Operations that the run has started, if it may take several steps to end them, or to take them back."""
        return ()

    def _pages_of(self, results: Sequence[TaskResult], run_outcome: RunOutcome) -> list[Page]:
        """The pages of the first task that has one, which is the proposal, and of the task that decides."""
        names = [result.task for result in results if not {"upstream_failed", "skipped"} & {*result.states}]
        first = next((name for name in names if self._page_of(name)), "")
        last = run_outcome.by.task if run_outcome.by else ""
        return [page_of(self._page_of(name)) for name in dict.fromkeys([first, last]) if name]

    def _missed(self, results: Sequence[TaskResult]) -> list[str]:
        """Deadlines that tasks have missed, of mapped ones too."""
        found: list[str] = []
        for result in results:
            pulled = self.context["ti"].xcom_pull(task_ids=result.task, key=MISSED)
            several = [pulled] if pulled and isinstance(pulled[0], str) else (pulled or [])
            found += [words for one in several for words in one or ()]
        return found

    def _page_of(self, name: str) -> list[Any]:
        """Empty for a mapped task: each instance has a page of its own."""
        found = self.context["ti"].xcom_pull(task_ids=name, key=SAID)
        return found if isinstance(found, list) and not self.dag.get_task(name).is_mapped else []

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
