"""What every operator shares: the environment, who it runs for, and what an error means for Airflow's retries.

What an operator returns is bounded: XCom is read by people, tasks hand on ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from inspect import getdoc
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTerminated,
    AirflowTaskTimeout,
    TaskDeferred,
)

from ha_core.hooks.zookeeper import SwitchyardHook
from ha_core.operators.dag_run import PLAN, approval_of, of_run, rejected, run_by, run_owner, triggered_by
from ha_core.operators.forms import Flag, OfForm, RefusedRequestError, refuse_unknown_keys
from ha_core.operators.labels import all_in_labels, in_labels, labels_of, page_in_labels
from ha_core.operators.outcome import (
    DONE,
    DRY_RUN,
    FAILED,
    NOTHING,
    PLANNED,
    REFUSED,
    TOLD,
    cut_off,
    refusal_in_short,
)
from ha_core.present.page import Page, log_lines, markdown

if TYPE_CHECKING:
    from ha_core.operations.engine.environment import Environment
    from ha_core.operations.engine.report import Report
    from ha_core.plan.facts.verdict import Verdict

Context = Any
"""Airflow's, of a task."""
MAX_LISTED = 1_000
"""Rows of a table in a log, and entries of a list in a result; the command line has them all."""
_ENDS = ((AirflowSkipException, NOTHING), (RefusedRequestError, REFUSED))
"""What an error tells of its task; any other: that it has failed."""


class DryRunEnds(AirflowSkipException):  # type: ignore[misc]  # airflow is not typed here
    """A task that changes something, in a dry run or after a no: what it would do has been told, by it or before it."""


class SwitchyardOperator(OfForm, BaseOperator):  # type: ignore[misc]  # airflow is not typed here
    """One call of the executor in the environment of a connection; subclasses say in `work` which.

    A refused request fails at once, for repeating it cannot help; other errors leave the decision to `retries`.
    Killed, the step is broken off where it is: the executor undoes what is not published, and release sees to the rest.
    Whatever becomes of it, one sentence is told, from which the run's report makes its first line.

    :param zookeeper_conn_id: the state.
    :param dry_run: change nothing.
    :param proposal_of: the task that has proposed what this one is about.
    :param strict_form: refuse a run whose configuration has keys that no titled field of the DAG's form has.
    """

    template_fields: Sequence[str] = ("zookeeper_conn_id",)
    ui_color = "#e8eef7"
    ends_run: ClassVar[bool] = False
    """It runs whatever was asked for or answered."""
    told_before: ClassVar[str] = ""
    """Where what it would do is told; it skips a dry run then."""
    dry_run: Any = Flag()

    def __init__(
        self,
        *,
        zookeeper_conn_id: str = SwitchyardHook.default_conn_name,
        proposal_of: str = PLAN,
        strict_form: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"doc_md": getdoc(type(self)), **kwargs})
        self.zookeeper_conn_id = zookeeper_conn_id
        self.proposal_of = proposal_of
        self.strict_form = strict_form
        self._timed_out = False

    def work(self) -> Any:
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        return self.guarded(context, self._asked_for)

    def _asked_for(self) -> Any:
        if not self.ends_run:
            if self.strict_form:
                refuse_unknown_keys(self.context)
            if rejected(approval_of(self.context)):
                raise DryRunEnds("The run was rejected: nothing is changed.")
            self.read_arguments()
        if self.told_before and self.dry_run:
            raise DryRunEnds(f"This is a dry run: {self.told_before}.")
        return bounded(self.work())

    def guarded(self, context: Context, work: Callable[[], Any]) -> Any:
        try:
            with errors_are_told(context, self.execution_timeout), refusals_are_final(context), ExitStack() as opened:
                opened.callback(self.__dict__.pop, "environment", None)
                self.context, self._opened = context, opened
                return work()
        except AirflowTaskTimeout:
            self._timed_out = True
            raise

    @cached_property
    def environment(self) -> Environment:
        """Opened when the work first asks for it, and closed when that ends."""
        hook = SwitchyardHook(self.zookeeper_conn_id)
        return self._opened.enter_context(hook.get_conn(run_by(self.context)))

    def finish_own(self) -> tuple[Report, ...]:
        """End the operations of one revision that a killed task of this run has left; reports of what they changed."""
        from ha_core.model import SingleOperation
        from ha_core.operations.clusters.registered import running_operations
        from ha_core.operations.running import engine

        owner = run_owner(self.context)
        reports = [
            engine.resume(self.environment, operation.id)
            for operation in running_operations(self.environment)
            if of_run(operation.by, owner) and isinstance(operation, SingleOperation)
        ]
        return tuple(report for report in reports if report.result != "undone")

    def say(self, page: Page, most: int | None = None) -> None:
        self._write_log(page_in_labels(page, _labels(self.context)), most)

    def propose(self, page: Page, most: int | None = None) -> None:
        """Say a page, and leave it as the table that whoever approves is shown, below who asks for it and why."""
        who = triggered_by(self.context) or "the clock"
        why = getattr(self, "reason", None)
        asked = f"Asked for by {who}: {why}" if why else f"Asked for by {who}"
        blocks = [*page_in_labels(chain([asked], page), _labels(self.context))]
        self._write_log(blocks, most)
        self.push("table", markdown(blocks))

    def _write_log(self, page: Page, most: int | None) -> None:
        for line in log_lines(page, most):
            self.log.info("%s", line)

    def say_reports(self, reports: Iterable[Report]) -> None:
        from ha_core.present.moves import report_page

        for report in reports:
            self.say(report_page(report))

    def require_served(self, report: Report) -> None:
        """:raises NotServedError: it has not succeeded."""
        from ha_core.operations.engine.errors import NotServedError

        self.say_reports([report])
        if report.result != "succeeded":
            raise NotServedError(report.error)

    def push(self, key: str, value: Any) -> None:
        self.context["ti"].xcom_push(key=key, value=value)

    def push_result(self, result: Mapping[str, Any]) -> None:
        """Leave `result` as what the task returns, whatever becomes of it."""
        self.push("return_value", bounded(result))

    def proposal(self, key: str = "return_value") -> Any:
        """What the task `proposal_of` has left."""
        return self.context["ti"].xcom_pull(task_ids=self.proposal_of, key=key)

    def done(self, text: str) -> None:
        tell(self.context, DONE, text)

    def would(self, text: str, **more: Any) -> None:
        """Tell what would be done; where it is not going to stay at that, what is done is told later."""
        tell(self.context, DRY_RUN if self.dry_run else PLANNED, text, **more)

    def on_kill(self) -> None:
        # Airflow only calls this and then waits for execute() to end; an exception here ends it where it stands.
        # After a timeout it has ended, and the exception would take its retries away.
        if not self._timed_out:
            raise AirflowTaskTerminated(f"task {self.task_id} was asked to stop")


class RunFailedError(AirflowFailException):  # type: ignore[misc]  # airflow is not typed here
    """A run whose report says why: there is nothing to add, and nobody to tell it to."""


@contextmanager
def errors_are_told(context: Context, timeout: object) -> Iterator[None]:
    """Whatever ends a task, a sentence of it is kept: without one the run's report has to say that nobody knows why."""
    try:
        yield
    except (TaskDeferred, DryRunEnds, RunFailedError):
        raise
    except AirflowTaskTimeout:
        tell(context, FAILED, f"it took longer than {timeout}")
        raise
    except Exception as error:
        kind = next((kind for known, kind in _ENDS if isinstance(error, known)), FAILED)
        short = refusal_in_short(_verdicts_of(error))
        tell(context, kind, str(error) or type(error).__name__, **({"short": short} if short else {}))
        raise


def _verdicts_of(error: Exception) -> Sequence[Verdict]:
    """Also those of what was raised again as an error of Airflow's."""
    from ha_core.operations.engine.errors import MoveError

    found = next((one for one in (error, error.__cause__) if isinstance(one, MoveError)), None)
    return () if found is None else found.verdicts


def tell(context: Context, kind: str, text: str, **more: Any) -> None:
    """Keep a sentence for the run's report. It must not hide what happens to the task itself."""
    with suppress(Exception):
        said = all_in_labels({"kind": kind, "text": " ".join(text.split()), **more}, _labels(context))
        context["ti"].xcom_push(key=TOLD, value=bounded(said))


def show(context: Context, line: str) -> None:
    """Have the page of the run show `line` beside the task.

    Airflow has one place there for a text of a task's own, the name of its map index, and shows it of any task.
    """
    context["shown"] = cut_off(line)
    context["map_index_template"] = "{{ shown }}"


def bounded(result: Any, most: int = MAX_LISTED) -> Any:
    """A result whose lists and mappings have at most so many entries; `left_out` counts the others, by name."""
    if not isinstance(result, Mapping):
        return result
    several = {key: value for key, value in result.items() if isinstance(value, list | tuple | Mapping)}
    left_out = {key: len(value) - most for key, value in several.items() if len(value) > most}
    kept = {key: bounded(value, most) for key, value in result.items()}
    for key in left_out:
        kind = dict if isinstance(kept[key], Mapping) else list
        kept[key] = kind(islice(kept[key].items() if kind is dict else kept[key], most))
    return {**kept, "left_out": left_out} if left_out else kept


def _labels(context: Context) -> dict[str, str]:
    return labels_of(context["dag"].params)


@contextmanager
def refusals_are_final(context: Context) -> Iterator[None]:
    from ha_core.kafka.errors import SecurityProfileError
    from ha_core.operations.access.bindings_file import DeclaredError
    from ha_core.operations.engine.errors import RefusedError
    from ha_core.store.errors import LockedError

    try:
        yield
    except (RefusedError, DeclaredError, SecurityProfileError, LockedError) as error:
        raise RefusedRequestError(in_labels(str(error), _labels(context))) from error
