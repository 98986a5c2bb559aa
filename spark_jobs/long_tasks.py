"""Long-lived tasks on Spark: a job of one task each, which any thread can cancel, and how many run at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from pyspark.sql import SparkSession

from spark_jobs.driver_watchdog import DriverWatchdog
from spark_jobs.rows import frame_of, from_batches, map_rows

S = TypeVar("S", bound=NamedTuple)
E = TypeVar("E", bound=NamedTuple)


class JobTags(NamedTuple):
    """Tags Spark jobs, so that any thread can cancel them.

    If Spark runs in this process, a session's own tags belong to a thread: `interruptTag` from another thread silently
    finds nothing. There the context's tags are used, which Spark Connect lacks.
    """

    clear: Callable[[], object]
    add: Callable[[str], object]
    cancel: Callable[[str], object]


def tags_of(spark: Any) -> JobTags:
    if not isinstance(spark, SparkSession):
        return JobTags(spark.clearTags, spark.addTag, spark.interruptTag)
    context = spark.sparkContext
    return JobTags(context.clearJobTags, context.addJobTag, context.cancelJobsWithTag)


def run_task(spark: Any, tag: str, task: Callable[[Iterator[S]], Iterator[E]], given: S, ended: type[E]) -> list[E]:
    """Runs a Spark job of one task until it ends, under a tag by which `tags_of(spark).cancel` ends it."""
    tags = tags_of(spark)
    tags.clear()
    tags.add(tag)  # of this thread
    kind = type(given)
    answers = map_rows(frame_of(spark, kind, [given]).coalesce(1), task, kind, ended)
    return list(from_batches(ended, answers.toArrow().to_batches()))


@contextmanager
def counting(spark: Any, tasks: int | None, remote: str | None) -> Iterator[Callable[[], int]]:
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
