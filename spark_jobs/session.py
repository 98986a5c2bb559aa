"""The Spark session of a job: as spark-submit asked for it, else on this machine, or on a Spark Connect server.

No setting of Spark is made here: in code it would stand above those of the one who runs the cluster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

_PROJECT = Path(__file__).resolve().parent.parent


@contextmanager
def open_session(name: str, remote: str | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block. `remote` is the address of a Spark Connect server, `sc://host:port`: its own
    Python must have this project.
    """
    # Executors must run this very Python: by default Spark takes the first python3 on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    if remote:
        builder = builder.remote(remote)
    else:
        # Workers unpickle the jobs' functions by their names. Where the project is installed, this adds nothing.
        known = os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH")]))
        builder = builder.appName(name).config("spark.executorEnv.PYTHONPATH", known)
    session: SparkSession = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
