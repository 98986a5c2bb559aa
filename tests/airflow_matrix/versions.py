"""Versions of Airflow that the DAGs are tried with, each in an environment of its own outside the repository."""

import subprocess
import sys
from pathlib import Path

VERSIONS: dict[str, str | None] = {"3.1.0": "2025-10-10", "3.1.8": "2026-04-01", "3.2.2": "2026-06-15", "3.3.2": None}
"""Version → the day whose packages it gets, as an installation of that time had them; None: today's."""
PROVIDERS = ("apache-airflow-providers-standard==1.21.0",)
"""These are upgraded without Airflow, so each version gets that of `requirements.in`."""
NEEDED = (
    *("kazoo", "pydantic", "typer", "rich", "PyYAML", "javaproperties", "SQLAlchemy", "alembic", "psycopg[binary]"),
    *("google-crc32c", "google-re2", "kafka-python", "lz4", "python-snappy", "zstandard", "cryptography", "httpx"),
    *("PyJWT", "prometheus-client", "confluent-kafka", "kio", "pyarrow", "pandas"),
    *("apache-airflow-providers-apache-spark", "apache-airflow-providers-openlineage"),
)
"""Packages that the DAGs import, in any version that fits, and the provider of OpenLineage."""
LEFT_OUT = "pyspark ; python_version < '3'\npyspark-client ; python_version < '3'\n"
"""400 MB that no smoke test needs."""


def environment_of(version: str, folder: Path) -> Path:
    """Make the environment in `folder` if it is not there. Returns its Python."""
    python = folder / version / "bin" / "python"
    done = folder / version / ".installed"
    if done.exists():
        return python
    _run(sys.executable, "-m", "venv", "--clear", str(folder / version))
    _run(str(python), "-m", "pip", "install", "--quiet", "uv")
    overrides = folder / version / "overrides.txt"
    overrides.write_text(LEFT_OUT)
    install = (str(python), "-m", "uv", "pip", "install", "--quiet", "--python", str(python))
    pinned = (*install, "--override", str(overrides), f"apache-airflow=={version}")
    day = VERSIONS[version]
    _run(*pinned, *NEEDED, *(("--exclude-newer", day) if day else ()))
    _run(*pinned, *PROVIDERS)
    done.touch()
    return python


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_200)
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.stdout}{ended.stderr}"
