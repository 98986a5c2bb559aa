"""Janino, the compiler among Spark's jars, compiles and runs a Java source file: no installed package has javac."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from stack.errors import StackError

COMPILER = "org.codehaus.janino.SimpleCompiler"
"""Arguments: a source file, the name of its class, and that class's arguments."""


def compiler_jars() -> list[Path]:
    spark = find_spec("pyspark")
    folder = Path(spark.origin).parent / "jars" if spark is not None and spark.origin is not None else Path()
    found = [*folder.glob("janino-*.jar"), *folder.glob("commons-compiler-*.jar")]
    if len(found) < 2:
        raise StackError("pyspark, whose jars compile this client, is not installed: pip install -r requirements.txt")
    return found
