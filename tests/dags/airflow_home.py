"""An Airflow of its own for the tests. Import this before anything of airflow: it reads its environment once."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("SWITCHYARD_TEST_AIRFLOW_HOME") or tempfile.mkdtemp(prefix="switchyard-airflow-"))

if "SWITCHYARD_TEST_AIRFLOW_HOME" not in os.environ:
    atexit.register(shutil.rmtree, HOME, ignore_errors=True)

os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{HOME}/airflow.db",
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(PROJECT / "dags"),
    AIRFLOW__CORE__UNIT_TEST_MODE="False",
    AIRFLOW__CORE__FERNET_KEY="",
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
    AIRFLOW__LOGGING__LOGGING_LEVEL="INFO",
)
