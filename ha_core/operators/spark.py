"""A Spark job of `spark_jobs`, submitted by Airflow's provider to the master of one connection."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from ha_core.hooks.airflow_names import AirflowException, AirflowFailException, AirflowNotFoundException
from ha_core.hooks.zookeeper import SwitchyardHook
from ha_core.kafka.security import SECURITY_FILE_VARIABLE
from ha_core.model.job_summary import FAILED, REFUSED
from ha_core.operators.base import Context, errors_are_reported, refusals_are_final
from ha_core.operators.dag_run import run_owner
from ha_core.operators.forms import RefusedRequestError, refuse_unknown_keys

if TYPE_CHECKING:
    from ha_core.wire.sasl import SecurityProfile

HISTORY_VARIABLE = "SWITCHYARD_HISTORY"
FRESH_S = 3600.0
"""Older rates do not predict the next minutes; they are renewed every 15 minutes."""


def history_folder() -> str:
    """The history that Spark jobs write and read, from the workers' environment: a path or a URI."""
    return os.environ.get(HISTORY_VARIABLE) or str(Path(os.environ["AIRFLOW_HOME"]) / "history")


def rates_file() -> Path:
    """File of the newest rates of all partitions: in the history, unless that is an object store."""
    history = history_folder()
    return Path(os.environ["AIRFLOW_HOME"] if "://" in history else history) / "rates.json"


def fresh_rates() -> Path | None:
    file = rates_file()
    try:
        return file if time.time() - file.stat().st_mtime <= FRESH_S else None
    except FileNotFoundError:
        return None


CONNECTION = "spark_switchyard"
LOCAL = "local[*]"
HISTORY, RATES = "{history}", "{rates}"
"""In arguments of a job: the folder of the history, and the file of the newest rates."""

_QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
"""Operators read the log for results, not for Spark's progress."""
_LOCAL_SETTINGS = {
    **_QUIET,
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # the driver lives for seconds
}
"""Settings of a Spark on the worker's machine. Those of a cluster are up to its operators."""
_REACH_S = 5.0


class SparkJobOperator(SparkSubmitOperator):  # type: ignore[misc]  # airflow is not typed here
    """One job. Its table is in the task's log, its summary is the return value.

    The connection `spark_switchyard` names the master, any that spark-submit takes. Without it, Spark runs on the
    worker's machine. The driver always runs there (client mode), with the clusters and accounts of this Airflow.

    :param job: `facts`, `offsets` or `aging`.
    :param arguments: further options, which may contain `HISTORY` and `RATES`.
    :param conf: Spark's settings; others are those of the master.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "arguments", "zookeeper_conn_id")
    ui_color = "#f7efe3"

    def __init__(
        self,
        *,
        job: str,
        arguments: Sequence[str] = (),
        zookeeper_conn_id: str = SwitchyardHook.default_conn_name,
        conn_id: str = CONNECTION,
        strict_form: bool = False,
        **kwargs: Any,
    ) -> None:
        defaults = {"name": f"switchyard-{job}", "conf": _QUIET, "doc_md": getdoc(type(self))}
        super().__init__(application=_application(), conn_id=conn_id, **{**defaults, **kwargs})
        self.job = job
        self.arguments = list(arguments)
        self.zookeeper_conn_id = zookeeper_conn_id
        self.strict_form = strict_form

    def execute(self, context: Context) -> dict[str, Any]:
        with errors_are_reported(context, self.execution_timeout):
            return self._submitted(context)

    def _submitted(self, context: Context) -> dict[str, Any]:
        if self.strict_form:
            with refusals_are_final(context):
                refuse_unknown_keys(context)
        with tempfile.TemporaryDirectory(prefix="switchyard-") as folder:
            state = self._state(context, Path(folder) / "security.yaml")
            summary = Path(folder) / "summary.json"
            history = history_folder()
            more = [text.replace(HISTORY, history).replace(RATES, str(rates_file())) for text in self.arguments]
            self.application_args = [self.job, *state, "--history", history, "--summary", str(summary), *more]
            try:
                super().execute(context)
            except AirflowException:
                _raise_words(summary)
                raise
            return dict(json.loads(summary.read_text("utf-8")))

    def _state(self, context: Context, accounts: Path) -> list[str]:
        """Options for the state's address. Writes the accounts of its clusters to `accounts`."""
        hook = SwitchyardHook(self.zookeeper_conn_id)
        with refusals_are_final(context), hook.get_conn(run_owner(context)) as environment:
            clusters = environment.store.load().clusters.values()
            profiles = {cluster.security: environment.profiles.get(cluster.security) for cluster in clusters}
        _write_profiles(accounts, profiles)
        self.env_vars = {SECURITY_FILE_VARIABLE: str(accounts)}
        settings = hook.settings()
        return ["--zookeeper", settings.zookeeper, "--root", settings.root]

    def _get_hook(self) -> Any:
        """Without the connection the provider would take YARN, and wait a minute for a master that does not answer."""
        hook = super()._get_hook()
        try:
            hook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            self.log.info("There is no connection %s: Spark runs on this machine (%s).", self._conn_id, LOCAL)
            hook._connection["master"] = LOCAL
        master = hook._connection["master"]
        if master.startswith("local"):
            hook._conf = {**_LOCAL_SETTINGS, **hook._conf}
            hook._driver_memory = hook._driver_memory or "512m"
        prove_master(master)
        return hook


def prove_master(master: str) -> None:
    """Raises AirflowFailException if no address of a standalone master accepts connections; others are not tried."""
    if not master.startswith("spark://"):
        return
    troubles = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            return socket.create_connection((host, int(port)), _REACH_S).close()
        except (OSError, ValueError) as error:
            troubles.append(f"{address}: {error}")
    raise AirflowFailException(
        f"Spark cannot be reached ({'; '.join(troubles)}). Nothing was read or changed. Start its master, or correct "
        f"the connection {CONNECTION}."
    )


def _application() -> str:
    spec = find_spec("spark_jobs.__main__")
    if spec is None or spec.origin is None:
        raise AirflowException("The package spark_jobs is not installed beside ha_core. Install the whole project.")
    return spec.origin


def _raise_words(summary: Path) -> None:
    """Raise the job's own error, if it has written one: the provider only knows its command and exit code."""
    try:
        summary_json = json.loads(summary.read_text("utf-8"))
    except (OSError, ValueError):
        return
    if why := summary_json.get(REFUSED):
        raise RefusedRequestError(str(why))
    if why := summary_json.get(FAILED):
        raise AirflowException(str(why))


def _write_profiles(file: Path, profiles: dict[str, SecurityProfile | None]) -> None:
    import yaml

    from ha_core.kafka.security import fields_of

    fields = {name: fields_of(profile) for name, profile in profiles.items() if profile is not None}
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(fields), "utf-8")
