"""The job on Spark: a session, a store, the driver, and a long-lived Spark job of one task per slot."""

import logging
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.security import load_profiles
from ha_core.metrics.http import HttpServer
from ha_core.model import Mirror
from ha_core.model.shown import ShownFormatter
from ha_core.operations.running.pattern_linking import opened
from ha_core.store.zookeeper import connect
from spark_jobs.broker_queries import Reach
from spark_jobs.inputs import InputError
from spark_jobs.long_tasks import counting, run_task, tags_of
from spark_jobs.mirror.counts import PartitionCounts
from spark_jobs.mirror.driver import Driver, Spark
from spark_jobs.mirror.metrics import MirrorMetrics
from spark_jobs.mirror.pattern_links import EVERY_S as PATTERNS_EVERY_S
from spark_jobs.mirror.pattern_links import PatternLinks
from spark_jobs.mirror.syncing import EVERY_S, Syncing
from spark_jobs.mirror.task import Slot, TaskEnded, TaskSettings
from spark_jobs.mirror.task import run as run_slot
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
    patterns_every_s: float = PATTERNS_EVERY_S,
    max_bytes_s: int | None = None,
    metrics_at: tuple[str, int] | None = None,
) -> None:
    """Copies until SIGTERM or SIGINT.

    :param tasks: None: as many as Spark runs at once.
    :param sync_every_s: pause between reads of committed offsets.
    :param patterns_every_s: pause between looks at the topics of a pattern's source.
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
            opened(zookeeper, root, session_timeout_s, profiles, f"mirror job on {socket.gethostname()}") as linking,
            PatternLinks(linking, patterns_every_s) as patterns,
        ):

            def follow(mirrors: Iterable[Mirror] | None, known: Mapping[tuple[str, str], int]) -> None:
                syncing.follow(mirrors, known)
                patterns.follow(leads=mirrors is not None)

            settings = TaskSettings(zookeeper, root, profiles, timeout_s, session_timeout_s, "")
            sessions = partial(_session, settings, tasks, remote)
            driver = Driver(store, counts, sessions, follow, max_bytes_s, metrics)
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
            tags_of(spark).cancel(_tag(job, slot))

        with counting(spark, tasks, remote) as slots:
            yield Spark(run, slots, cancel)


def _tag(job: str, slot: int) -> str:
    return f"mirror-{job}-{slot}"


def _on_spark(spark: Any, settings: TaskSettings, job: str, slot: int) -> str:
    """A Spark job of one task, until it ends."""
    ended = run_task(spark, _tag(job, slot), partial(run_slot, settings._replace(job=job)), Slot(slot), TaskEnded)
    return ", ".join(one.why for one in ended)
