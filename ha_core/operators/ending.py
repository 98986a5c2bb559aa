"""The end of a run: nothing is left standing, and the run's result says what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import TriggerRule

from ha_core.operators.base import Context, RunFailedError, SwitchyardOperator
from ha_core.operators.dag_run import approval_of, base_id, known_ids, of_run, rejected, responder, run_owner
from ha_core.operators.outcome import TOLD, Outcome, Told, outcome

if TYPE_CHECKING:
    pass

LINE, RESULT = "outcome", "return_value"

MAX_SHOWN = 250
"""Characters of Airflow's column. PostgreSQL refuses longer ones, and with them the end of the task."""


class ReleaseOperator(SwitchyardOperator):
    """Teardown: whatever happened before, no fence and no lock of this run is left.

    Before the cut the operation is undone; after it, it is brought to its end. Operations are found by the run's own
    name, so this needs nothing from the tasks that may have died.
    """

    reads_form: ClassVar[bool] = False

    def work(self, context: Context) -> list[str]:
        from ha_core.operations import engine
        from ha_core.operators.base import settle_own
        from ha_core.present.moves import report_page

        dag_run, owner = context["dag_run"], run_owner(context)
        base = base_id(dag_run.dag_id, dag_run.run_id, dag_run.run_after)
        with self.environment(context) as environment:
            switches = known_ids(base, environment.operation)
            released = [engine.release(environment, operation_id) for operation_id in switches]
            settled = [report for report in (*released, *settle_own(environment, owner)) if report is not None]
            held = [lock.key for lock in environment.store.locks() if of_run(lock.by, owner)]
        for report in settled:
            self.say(report_page(report))
        if held:
            raise RuntimeError(f"Locks of this run still stand: {', '.join(held)}. Clear this task to try again.")
        self.log.info("no fence and no lock of this run is left")
        return [report.operation for report in settled]


class OutcomeOperator(SwitchyardOperator):
    """The run's result: in its first line what became of it, below that what the deciding task has returned.

    It runs whatever happened before, and fails where anything did: the only leaf that is no teardown, so that a run is
    as red as its worst task, and has a result all the same.
    """

    reads_form: ClassVar[bool] = False

    def __init__(self, **kwargs: Any) -> None:
        more = {"trigger_rule": TriggerRule.ALL_DONE, "retries": 2, "retry_delay": timedelta(seconds=2)}
        super().__init__(**{**more, **kwargs})

    def work(self, context: Context) -> dict[str, Any]:
        tasks = self._told(context)
        answer = approval_of(context)
        found = outcome(tasks, responder(answer) if rejected(answer) else None)
        self.log.info("%s", found.line)
        show(context, found.line)
        context["ti"].xcom_push(key=LINE, value=found.line)  # the UI folds the result, and shows this as it is
        document = {"outcome": found.line, **found.more, **self.details(context, found)}
        if found.failed:
            context["ti"].xcom_push(key=RESULT, value=document)
            raise RunFailedError(found.line)
        return document

    def details(self, context: Context, found: Outcome) -> dict[str, Any]:
        """What stands below the first line."""
        returned = context["ti"].xcom_pull(task_ids=found.by.task) if found.by is not None else None
        return dict(returned) if isinstance(returned, Mapping) else {}

    def _told(self, context: Context) -> list[Told]:
        instance, run_id = context["ti"], context["dag_run"].run_id
        before = {task.task_id for task in self.get_flat_relatives(upstream=True)}
        names = [task.task_id for task in self.dag.topological_sort() if task.task_id in before]
        states = instance.get_task_states(dag_id=self.dag_id, run_ids=[run_id]).get(run_id, {})
        return [_told(instance, name, states) for name in names]


def show(context: Context, line: str) -> None:
    """Have the page of the run show `line` beside the task, so that a green dry run is not taken for the deed.

    Airflow has one place there for a text of a task's own, the name of its map index, and shows it of any task.
    """
    context["outcome"] = line if len(line) <= MAX_SHOWN else f"{line[: MAX_SHOWN - 1]}…"
    context["map_index_template"] = "{{ outcome }}"


def _told(instance: Any, name: str, states: Mapping[str, str | None]) -> Told:
    """Of a mapped task, what the first instance that says anything says."""
    mapped = {key for key in states if key.startswith(f"{name}_") and key[len(name) + 1 :].isdecimal()}
    own = tuple(str(state) for key, state in sorted(states.items()) if key == name or key in mapped)
    if not set(own) - {"upstream_failed", "removed", "None"}:
        return Told(name, own)
    said = instance.xcom_pull(task_ids=name, key=TOLD)
    if isinstance(said, list | tuple):
        said = next((one for one in said if isinstance(one, dict)), None)
    if not isinstance(said, dict):
        return Told(name, own)
    more = {key: value for key, value in said.items() if key not in {"kind", "text"}}
    return Told(name, own, str(said["kind"]), str(said["text"]), more)
