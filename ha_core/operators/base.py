"""Shared by all operators: the environment, the run's owner, and the effect of errors on Airflow's retries.

Results are bounded: people read XComs, tasks only hand on ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from inspect import getdoc
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from ha_core.hooks.airflow_names import (
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTerminated,
    AirflowTaskTimeout,
    TaskDeferred,
)
from ha_core.hooks.zookeeper import SwitchyardHook
from ha_core.operators import four_eyes
from ha_core.operators.dag_run import (
    PLAN,
    approval_of,
    asked_words,
    of_run,
    provenance_of,
    rejected,
    run_by,
    run_owner,
)
from ha_core.operators.deadlines import MISSED, Watch, fence_deadline_s, rto_s
from ha_core.operators.forms import Flag, FormArguments, RefusedRequestError, refuse_unknown_keys
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
from ha_core.present.page import Page, Table, log_lines, markdown
from ha_core.present.page_document import document

if TYPE_CHECKING:
    from ha_core.operations.engine.environment import Environment
    from ha_core.operations.engine.report import Report
    from ha_core.plan.facts.verdict import Verdict

Context = Any
"""A task's context, of Airflow."""
SAID = "switchyard_page"
"""XCom key of the pages that a task has written into its log."""
MAX_LISTED = 1_000
"""Rows of a table in a log, and entries of a list in a result. The command line has all of them."""
_ENDS = ((AirflowSkipException, NOTHING), (RefusedRequestError, REFUSED))
"""Error → outcome of its task. Any other error: the task has failed."""


class DryRunEnds(AirflowSkipException):  # type: ignore[misc]  # airflow is not typed here
    """Skips a task that changes something, in a dry run or after a rejection. Its preview has already been logged."""


class SwitchyardOperator(FormArguments, BaseOperator):  # type: ignore[misc]  # airflow is not typed here
    """One call of the executor in the environment of a connection; subclasses implement it in `work`.

    A refused request fails at once, because repeating it cannot help; other errors are up to `retries`.
    If the task is killed, its step is interrupted: the executor undoes unpublished changes, the release does the rest.
    Every task leaves one sentence, from which the run's report makes its first line.

    :param zookeeper_conn_id: the state.
    :param dry_run: change nothing.
    :param proposal_of: the task that has made the proposal.
    :param strict_form: refuse a run whose configuration has keys that are no titled field of the DAG's form.
    """

    template_fields: Sequence[str] = ("zookeeper_conn_id",)
    ui_color = "#e8eef7"
    ends_run: ClassVar[bool] = False
    """Runs after a rejection and in a dry run, too."""
    preview_in: ClassVar[str] = ""
    """Where to find the preview. If it is set, the task skips itself in a dry run."""
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
        self._said: list[str | Table] = []

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
        if self.preview_in and self.dry_run:
            raise DryRunEnds(f"This is a dry run: {self.preview_in}.")
        if not (self.ends_run or self.dry_run) and (why := four_eyes.objection(self.context)):
            raise RefusedRequestError(why)
        return bounded(self.work())

    def guarded(self, context: Context, work: Callable[[], Any]) -> Any:
        try:
            with (
                errors_are_reported(context, self.execution_timeout),
                refusals_are_final(context),
                ExitStack() as opened,
            ):
                opened.callback(self.__dict__.pop, "environment", None)
                self.context, self._opened, self._said = context, opened, []
                opened.callback(self._leave_page)
                return work()
        except AirflowTaskTimeout:
            self._timed_out = True
            raise

    @cached_property
    def environment(self) -> Environment:
        """Opened on first use, and closed when the work ends."""
        hook = SwitchyardHook(self.zookeeper_conn_id)
        return self._opened.enter_context(hook.get_conn(run_by(self.context), provenance_of(self.context)))

    @contextmanager
    def watching(self, operation_id: str) -> Iterator[None]:
        """Raise an alarm if the operation misses a deadline meanwhile, and leave it for the run's outcome."""
        environment = self.environment
        watch = Watch(lambda: environment.operation(operation_id), fence_deadline_s(), rto_s())
        try:
            with watch:
                yield
        finally:
            if watch.missed:
                with suppress(Exception):
                    self.push(MISSED, watch.missed)

    def finish_own(self) -> tuple[Report, ...]:
        """Finish single operations of this run's killed tasks. Returns reports of those not undone."""
        from ha_core.operations.clusters.registered import running_operations
        from ha_core.operations.running import engine

        owner = run_owner(self.context)
        reports = [
            engine.resume(self.environment, operation.id)
            for operation in running_operations(self.environment)
            if of_run(operation.by, owner) and operation.ATOMIC
        ]
        return tuple(report for report in reports if report.result != "undone")

    def say(self, page: Page, max_rows: int | None = None) -> None:
        self._write_log(page_in_labels(page, _labels(self.context)), max_rows)

    def propose(self, page: Page, max_rows: int | None = None) -> None:
        """Log a page, and leave it as the approver's table, below the user who triggered the run and the reason."""
        heading = asked_words(self.context, getattr(self, "reason", None))
        blocks = [*page_in_labels(chain([heading], page), _labels(self.context))]
        self._write_log(blocks, max_rows)
        self.push("table", markdown(blocks))

    def _write_log(self, page: Page, max_rows: int | None) -> None:
        blocks = [*page]
        self._said += blocks
        for line in log_lines(blocks, max_rows):
            self.log.info("%s", line)

    def _leave_page(self) -> None:
        """Leave all that was said for the run's outcome. A failure here must not hide the task's own."""
        if self._said:
            with suppress(Exception):
                self.push(SAID, document(self._said))

    def say_reports(self, reports: Iterable[Report]) -> None:
        from ha_core.present.moves import report_page

        for report in reports:
            self.say(report_page(report))

    def require_served(self, report: Report) -> None:
        """:raises NotServedError: the operation has not succeeded."""
        from ha_core.operations.engine.errors import NotServedError

        self.say_reports([report])
        if report.result != "succeeded":
            raise NotServedError(report.error)

    def push(self, key: str, value: Any) -> None:
        self.context["ti"].xcom_push(key=key, value=value)

    def push_result(self, result: Mapping[str, Any]) -> None:
        """Leave `result` as the task's return value, even if the task fails later."""
        self.push("return_value", bounded(result))

    def proposal(self, key: str = "return_value") -> Any:
        """An XCom of the task `proposal_of`."""
        return self.context["ti"].xcom_pull(task_ids=self.proposal_of, key=key)

    def done(self, text: str) -> None:
        tell(self.context, DONE, text)

    def would(self, text: str, **more: Any) -> None:
        """Note a preview. Unless this is a dry run, the outcome replaces it later."""
        tell(self.context, DRY_RUN if self.dry_run else PLANNED, text, **more)

    def on_kill(self) -> None:
        # Airflow calls this and waits for execute() to end; the exception interrupts it where it is.
        # After a timeout it has already ended, and the exception would prevent its retries.
        if not self._timed_out:
            raise AirflowTaskTerminated(f"task {self.task_id} was asked to stop")


class RunFailedError(AirflowFailException):  # type: ignore[misc]  # airflow is not typed here
    """The run's report already has the reason, so this adds no text."""


@contextmanager
def errors_are_reported(context: Context, timeout: object) -> Iterator[None]:
    """Keep one sentence of any error that ends a task: otherwise the run's report has no reason."""
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
        text = error.reason if isinstance(error, RefusedRequestError) else str(error) or type(error).__name__
        tell(context, kind, text, **({"short": short} if short else {}))
        raise


def _verdicts_of(error: Exception) -> Sequence[Verdict]:
    """Verdicts of the error, or of its cause if it was raised again as an error of Airflow's."""
    from ha_core.operations.engine.errors import MoveError

    move_error = next((one for one in (error, error.__cause__) if isinstance(one, MoveError)), None)
    return () if move_error is None else move_error.verdicts


def tell(context: Context, kind: str, text: str, **more: Any) -> None:
    """Keep a sentence for the run's report. A failure here must not hide the task's own."""
    with suppress(Exception):
        document = all_in_labels({"kind": kind, "text": " ".join(text.split()), **more}, _labels(context))
        context["ti"].xcom_push(key=TOLD, value=bounded(document))


def show(context: Context, line: str) -> None:
    """Show `line` beside the task, on the page of the run.

    Airflow has one place there for text of a task, the name of its map index, and shows it for any task.
    """
    context["shown"] = cut_off(line)
    context["map_index_template"] = "{{ shown }}"


def bounded(result: Any, max_items: int = MAX_LISTED) -> Any:
    """A result whose lists and mappings have at most `max_items` entries; `left_out` counts the others by name."""
    if not isinstance(result, Mapping):
        return result
    several = {key: value for key, value in result.items() if isinstance(value, list | tuple | Mapping)}
    left_out = {key: len(value) - max_items for key, value in several.items() if len(value) > max_items}
    kept = {key: bounded(value, max_items) for key, value in result.items()}
    for key in left_out:
        kind = dict if isinstance(kept[key], Mapping) else list
        kept[key] = kind(islice(kept[key].items() if kind is dict else kept[key], max_items))
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
        reason, changed = (error.reason, error.changed) if isinstance(error, RefusedError) else (str(error), None)
        raise RefusedRequestError(in_labels(reason, _labels(context)), changed) from error
