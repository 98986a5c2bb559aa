"""An Airflow of its own for the tests. Import this before anything of airflow: it reads its environment once."""

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("SWITCHYARD_TEST_AIRFLOW_HOME") or tempfile.mkdtemp(prefix="switchyard-airflow-"))
DATABASE = HOME / "airflow.db"

if "SWITCHYARD_TEST_AIRFLOW_HOME" not in os.environ:
    atexit.register(shutil.rmtree, HOME, ignore_errors=True)

os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{DATABASE}",
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(PROJECT / "dags"),
    AIRFLOW__CORE__UNIT_TEST_MODE="False",
    AIRFLOW__CORE__FERNET_KEY="",
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
    AIRFLOW__LOGGING__LOGGING_LEVEL="INFO",
)


def bundle(file: Path) -> tuple[str, str]:
    """The setting for Airflow to know one DAG alone: each run in a test reads, and writes, all that it knows."""
    path = "airflow.dag_processing.bundles.local.LocalDagBundle"
    one = {"name": file.stem, "classpath": path, "kwargs": {"path": str(file)}}
    return "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([one])
