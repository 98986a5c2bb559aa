"""The job on Spark: a session, a store, the driver, and a long-lived Spark job of one task per slot."""

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from ha_core.kafka.admin import Admin
from ha_core.kafka.security import load_profiles
from ha_core.metrics.http import HttpServer
from ha_core.model.shown import ShownFormatter
from ha_core.store.zookeeper import connect
from spark_jobs.broker_queries import Reach
from spark_jobs.driver_watchdog import DriverWatchdog
from spark_jobs.inputs import InputError
from spark_jobs.mirror.counts import PartitionCounts
from spark_jobs.mirror.driver import Driver, Spark
from spark_jobs.mirror.metrics import MirrorMetrics
from spark_jobs.mirror.syncing import EVERY_S, Syncing
from spark_jobs.mirror.task import Slot, TaskEnded, TaskSettings
from spark_jobs.mirror.task import run as run_task
from spark_jobs.rows import frame_of, from_batches, map_rows
from spark_jobs.session import SparkConnectError, listens, naming, open_session

log = logging.getLogger(__name__)


def run(
    zookeeper: str,
    root: str,
    tasks: int | None,
    timeout_s: float,
    session_timeout_s: float,
    remote: str | None,
    sync_every_s: float = EVERY_S,
    max_bytes_s: int | None = None,
    metrics_at: tuple[str, int] | None = None,
) -> None:
    """Copies until SIGTERM or SIGINT.

    :param tasks: None: as many as Spark runs at once.
    :param sync_every_s: pause between reads of committed offsets.
    :param max_bytes_s: limit for all mirrors together; None: none.
    :param metrics_at: host and port for Prometheus.
    :raises InputError: the port for metrics cannot be bound.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ShownFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for noisy in ("kazoo", "py4j"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    profiles = load_profiles()
    store = connect(zookeeper, root, session_timeout_s, create=False)

    def opens(cluster: str) -> Admin:
        return Reach(store.clusters(), profiles, timeout_s).open(cluster)

    try:
        metrics = MirrorMetrics()
        with (
            serving(metrics, metrics_at),
            PartitionCounts(opens) as counts,
            Syncing(store, opens, sync_every_s, metrics.synced) as syncing,
        ):
            settings = TaskSettings(zookeeper, root, profiles, timeout_s, session_timeout_s, "")
            sessions = partial(_session, settings, tasks, remote)
            driver = Driver(store, counts, sessions, syncing.follow, max_bytes_s, metrics)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: driver.stop())
            driver.run()
    finally:
        store.close()


@contextmanager
def serving(metrics: MirrorMetrics, at: tuple[str, int] | None) -> Iterator[None]:
    """:raises InputError: the port cannot be bound."""
    if at is None:
        yield
        return
    server = HttpServer(*at, metrics.render, tuple, "--metrics-port")
    try:
        port = server.start()
    except OSError as error:
        raise InputError(f"No metrics can be shown: {error}") from error
    log.info("metrics are shown at http://%s:%d/metrics", at[0], port)
    try:
        yield
    finally:
        server.stop()


@contextmanager
def _session(settings: TaskSettings, tasks: int | None, remote: str | None) -> Iterator[Spark]:
    with open_session(remote) as spark:

        def run(job: str, slot: int) -> str:
            with naming(remote):
                return _on_spark(spark, settings, job, slot)

        def cancel(job: str, slot: int) -> None:
            if remote and not listens(remote):
                raise SparkConnectError(remote, "does not answer any more")  # its client would retry for a while
            _tags(spark).cancel(_tag(job, slot))

        with _counting(spark, tasks, remote) as slots:
            yield Spark(run, slots, cancel)


def _tag(job: str, slot: int) -> str:
    return f"mirror-{job}-{slot}"


class _Tags(NamedTuple):
    """Tags Spark jobs, so that any thread can cancel them.

    If Spark runs in this process, a session's own tags belong to a thread: `interruptTag` from another thread silently
    finds nothing. There the context's tags are used, which Spark Connect lacks.
    """

    clear: Callable[[], object]
    add: Callable[[str], object]
    cancel: Callable[[str], object]


def _tags(spark: Any) -> _Tags:
    if not isinstance(spark, SparkSession):
        return _Tags(spark.clearTags, spark.addTag, spark.interruptTag)
    context = spark.sparkContext
    return _Tags(context.clearJobTags, context.addJobTag, context.cancelJobsWithTag)


def _on_spark(spark: Any, settings: TaskSettings, job: str, slot: int) -> str:
    """A Spark job of one task, until it ends."""
    tags = _tags(spark)
    tags.clear()
    tags.add(_tag(job, slot))  # of this thread
    rows = frame_of(spark, Slot, [Slot(slot)]).coalesce(1)
    answers = map_rows(rows, partial(run_task, settings._replace(job=job)), Slot, TaskEnded)
    ended = list(from_batches(TaskEnded, answers.toArrow().to_batches()))
    return ", ".join(one.why for one in ended)


@contextmanager
def _counting(spark: Any, tasks: int | None, remote: str | None) -> Iterator[Callable[[], int]]:
    """The given number of tasks, else as many as Spark runs at once, which grows as executors come.

    A Spark that has ended or hangs is an error here, and ends the job: nothing can be started there any more.
    """
    if remote:
        assert tasks is not None
        yield lambda: tasks
        return
    pulse = DriverWatchdog(lambda: max(int(spark.sparkContext.defaultParallelism), 1))

    def slots() -> int:
        runs = pulse.answer()  # called even if `tasks` is given, to check that Spark is alive
        return runs if tasks is None else tasks

    try:
        yield slots
    finally:
        pulse.stop()
