"""What every operator shares: the environment, who it runs for, and what an error means for Airflow's retries."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTerminated

from ha_core.hooks.zookeeper import SwitchyardHook

if TYPE_CHECKING:
    from ha_core.moves.context import Environment

Context = Any
"""Airflow's task context."""


class SwitchyardOperator(BaseOperator):  # type: ignore[misc]  # airflow is not typed here
    """One call of the executor in the environment of a connection.

    A refused request fails at once, for repeating it cannot help; other errors leave the decision to `retries`.
    Killed, the step is broken off where it is: the executor undoes what is not published, and release sees to the rest.
    """

    template_fields: Sequence[str] = ("zookeeper_conn_id",)
    ui_color = "#e8eef7"

    def __init__(self, *, zookeeper_conn_id: str = SwitchyardHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.zookeeper_conn_id = zookeeper_conn_id

    @contextmanager
    def environment(self, context: Context) -> Iterator[Environment]:
        """The environment of this run; errors become Airflow's."""
        logging.getLogger("kazoo").setLevel(logging.WARNING)  # the log is for operators: what was done, not how
        with refusals_are_final(), SwitchyardHook(self.zookeeper_conn_id).get_conn(run_owner(context)) as environment:
            yield environment

    def on_kill(self) -> None:
        # Airflow only calls this and then waits for execute() to end; an exception here ends it where it stands.
        raise AirflowTaskTerminated(f"task {self.task_id} was asked to stop")


def run_owner(context: Context) -> str:
    """Who an operation belongs to: `airflow:DAG/RUN`."""
    run = context["dag_run"]
    return f"airflow:{run.dag_id}/{run.run_id}"


@contextmanager
def refusals_are_final() -> Iterator[None]:
    """Turn errors that a retry cannot mend into Airflow's failure without retries."""
    from ha_core.bindings_file import DeclaredError
    from ha_core.kafka.errors import SecurityProfileError
    from ha_core.moves.errors import RefusedError
    from ha_core.store.errors import LockedError

    try:
        yield
    except (RefusedError, DeclaredError, SecurityProfileError, LockedError) as error:
        raise AirflowFailException(str(error)) from error
