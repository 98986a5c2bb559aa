"""Runs in the environment of one version of Airflow: reads all DAGs, then runs one. Writes the result as JSON.

Arguments: the form of the DAG `switch`, and the files for OpenLineage's events and for the result.
"""

from tests.dags import airflow_home  # noqa: I001  # before anything of airflow

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LINEAGE = {"type": "file", "log_file_path": sys.argv[2], "append": True}
os.environ["AIRFLOW__OPENLINEAGE__TRANSPORT"] = json.dumps(LINEAGE)

from airflow.utils.db import initdb  # noqa: E402

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Airflow 3.1
    from airflow.models.dagbag import DagBag


def main() -> None:
    initdb()
    every = DagBag(dag_folder=str(airflow_home.PROJECT / "dags"))
    file = airflow_home.PROJECT / "dags" / "switch.py"
    os.environ.update([airflow_home.bundle(file)])
    # Airflow 3.1 runs only DAGs that it has stored.
    subprocess.run([sys.executable, "-m", "airflow", "dags", "reserialize"], check=True, stdout=sys.stderr)
    run = DagBag(dag_folder=str(file)).dags["switch"].test(run_conf=json.loads(sys.argv[1]))
    document = {
        "errors": every.import_errors,
        "dags": sorted(every.dags),
        "state": str(run.state),
        "tasks": {one.task_id: str(one.state) for one in run.get_task_instances()},
        "outcome": _outcome(run.run_id),
        "assets": _assets(),
    }
    Path(sys.argv[3]).write_text(json.dumps(document))


def _outcome(run_id: str) -> Any:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = XComModel.get_many(run_id=run_id, dag_ids="switch", task_ids="report", key="outcome")
        return [XComModel.deserialize_value(one) for one in session.scalars(query)]


def _assets() -> list[str]:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return [*session.scalars(select(AssetModel.uri).join(AssetEvent, AssetEvent.asset_id == AssetModel.id))]


if __name__ == "__main__":
    main()
