"""A run of the switch DAG that kills itself (SIGKILL). Arguments: `fenced` or `cut`, user, run_after.

Its home has Airflow's database already.
"""

from tests.dags import airflow_home  # noqa: I001  # before anything of airflow

import os
import signal
import sys
from datetime import datetime
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun

from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.operations.move.fenced_reads import FencedReads


def die(_argument: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    where, user, run_after = sys.argv[1], sys.argv[2], datetime.fromisoformat(sys.argv[3])
    DagRun.generate_run_id = lambda **_: user
    if where == "fenced":
        FencedReads.read = die  # type: ignore[assignment, method-assign]
    else:
        SwitchSteps.verify = die  # type: ignore[assignment, method-assign]
    conf = {"scope": [f"user:{user}"], "from": "east", "to": "west", "reason": "a test", "dry_run": False}
    file = airflow_home.PROJECT / "dags" / "switch.py"
    os.environ.update([airflow_home.bundle(file)])
    DagBag(dag_folder=str(file)).dags["switch"].test(run_conf=conf, run_after=run_after)


if __name__ == "__main__":
    main()
