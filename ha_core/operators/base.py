"""What every operator shares: the environment, who it runs for, and what an error means for Airflow's retries."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    AirflowTaskTerminated,
)

from ha_core.hooks.zookeeper import SwitchyardHook
from ha_core.operators.dag_run import approval_of, of_run, rejected, run_by
from ha_core.operators.forms import refuse_unknown_keys
from ha_core.operators.outcome import DONE, DRY_RUN, FAILED, NOTHING, PLANNED, REFUSED, TOLD
from ha_core.present.page import Page, log_lines

if TYPE_CHECKING:
    from ha_core.operations.environment import Environment
    from ha_core.operations.report import Report

Context = Any
"""Airflow's task context."""


class DryRunEnds(AirflowSkipException):  # type: ignore[misc]  # airflow is not typed here
    """A task that changes something, in a dry run or after a no: what it would do has been told by a task before."""


class SwitchyardOperator(BaseOperator):  # type: ignore[misc]  # airflow is not typed here
    """One call of the executor in the environment of a connection; subclasses say in `work` which.

    A refused request fails at once, for repeating it cannot help; other errors leave the decision to `retries`.
    Killed, the step is broken off where it is: the executor undoes what is not published, and release sees to the rest.
    Whatever becomes of it, one sentence is told, from which the run's report makes its first line.
    """

    template_fields: Sequence[str] = ("zookeeper_conn_id",)
    ui_color = "#e8eef7"
    reads_form: ClassVar[bool] = True
    """A configuration with keys that the form does not have is refused. Not by what ends a run."""

    def __init__(self, *, zookeeper_conn_id: str = SwitchyardHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.zookeeper_conn_id = zookeeper_conn_id

    def work(self, context: Context) -> Any:
        """What the task does."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        try:
            with refusals_are_final():
                if self.reads_form:
                    refuse_unknown_keys(context)
                    stop_after_a_no(context)
                return self.work(context)
        except (AirflowRescheduleException, DryRunEnds, RunFailedError):
            raise
        except AirflowSkipException as skipped:
            tell(context, NOTHING, str(skipped))
            raise
        except RefusedRequestError as error:
            tell(context, REFUSED, str(error))
            raise
        except Exception as error:
            tell(context, FAILED, str(error) or type(error).__name__)
            raise

    @contextmanager
    def environment(self, context: Context) -> Iterator[Environment]:
        """The environment of this run."""
        logging.getLogger("kazoo").setLevel(logging.WARNING)  # the log is for operators: what was done, not how
        with SwitchyardHook(self.zookeeper_conn_id).get_conn(run_by(context)) as environment:
            yield environment

    def say(self, page: Page, most: int | None = None) -> None:
        """Write a page into the task's log.

        :param most: rows of each table; None: all of them.
        """
        for line in log_lines(page, most):
            self.log.info("%s", line)

    def done(self, context: Context, text: str, **more: Any) -> None:
        """Tell what was done."""
        tell(context, DONE, text, **more)

    def would(self, context: Context, text: str, **more: Any) -> None:
        """Tell what would be done; where it is not going to stay at that, what is done is told later."""
        tell(context, DRY_RUN if context["params"].get("dry_run") else PLANNED, text, **more)

    def on_kill(self) -> None:
        # Airflow only calls this and then waits for execute() to end; an exception here ends it where it stands.
        raise AirflowTaskTerminated(f"task {self.task_id} was asked to stop")


class RefusedRequestError(AirflowFailException):  # type: ignore[misc]  # airflow is not typed here
    """Nothing was changed, and repeating it cannot help."""


class RunFailedError(AirflowFailException):  # type: ignore[misc]  # airflow is not typed here
    """A run whose report says why: there is nothing to add, and nobody to tell it to."""


def stop_after_a_no(context: Context) -> None:
    """:raises DryRunEnds: the run was asked about, and rejected."""
    if rejected(approval_of(context)):
        raise DryRunEnds("The run was rejected: nothing is changed.")


def tell(context: Context, kind: str, text: str, **more: Any) -> None:
    """Keep a sentence for the run's report. It must not hide what happens to the task itself."""
    with suppress(Exception):
        context["ti"].xcom_push(key=TOLD, value={"kind": kind, "text": " ".join(text.split()), **more})


@contextmanager
def refusals_are_final() -> Iterator[None]:
    """Turn errors that a retry cannot mend into Airflow's failure without retries."""
    from ha_core.bindings_file import DeclaredError
    from ha_core.kafka.errors import SecurityProfileError
    from ha_core.operations.errors import RefusedError
    from ha_core.store.errors import LockedError

    try:
        yield
    except (RefusedError, DeclaredError, SecurityProfileError, LockedError) as error:
        raise RefusedRequestError(str(error)) from error


def truth(rendered: Any) -> bool:
    """A boolean param as a template renders it."""
    return rendered is True or str(rendered) == "True"


def settle_own(environment: Environment, owner: str) -> tuple[Report, ...]:
    """Bring the operations of one revision of the run `owner` to their end; reports of those that changed something."""
    from ha_core.operations import engine
    from ha_core.operations.registry import running_operations

    left = [one for one in running_operations(environment) if of_run(one.by, owner) and one.kind != "switch"]
    reports = [engine.resume(environment, one.id) for one in left]
    return tuple(report for report in reports if report.result != "undone")
