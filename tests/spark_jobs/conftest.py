"""One Spark session on this machine for all tests of the folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from stack.java import find_java
from stack.spark_java import spark_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        for key, value in spark_environment(find_java()).items():
            patch.setenv(key, value)
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.log.level": "ERROR",
            "spark.driver.memory": "512m",
            # The JVM lives for a minute, so slow optimisations do not pay off.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.master("local[2]").appName("tests")
        for name, text in settings.items():
            builder = builder.config(name, text)
        session = builder.getOrCreate()
        yield session
        session.stop()
