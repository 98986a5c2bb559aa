"""The other way to copy on Spark: a job per second that copies new records, in place of long-lived tasks.

An experiment, not a part of the product. Each batch's tasks may run on any executor, so each takes its partitions over
like a long-lived task does once; the copying itself is the same.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from bench.copiers import CopyTask
from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.model import Cluster
from spark_jobs.session import open_session

EVERY_S = 1.0
_MOST_S = 20.0
"""Seconds for the takeover and the first record."""


def copy(task: CopyTask, slots: int, mine: Iterable[int]) -> Iterator[int]:
    """One task of a batch: copies until it has caught up, for at most `EVERY_S` after its first record."""
    for slot in mine:
        with (
            Admin(Cluster(name="source", bootstrap=task.source)) as here,
            Admin(Cluster(name="target", bootstrap=task.target)) as there,
        ):
            ids = [CopyId(task.link, task.topic, partition) for partition in range(slot, task.partitions, slots)]
            wanted = {id_: here.ends([(id_.topic, id_.partition)]) for id_ in ids}
            ends = {id_: found[id_.topic, id_.partition].last_stable for id_, found in wanted.items()}
            copying = Copying(here, there, [CopyPartition(id_, (task.log, 0)) for id_ in ids])
            until, begun = time.monotonic() + _MOST_S, False
            while time.monotonic() < until:
                standing = copying.statuses()
                if not begun and all(one.state == "copying" for one in standing.values()):
                    until, begun = time.monotonic() + EVERY_S, True
                if all(standing[id_].has(end) for id_, end in ends.items()):
                    break
                for _ in range(10):
                    copying.step(0.005)
            yield copying.work.copied_bytes
            copying.close()


def main() -> None:
    task = CopyTask(**json.loads(sys.argv[1]))
    with open_session() as spark:
        context: Any = spark.sparkContext
        slots = int(context.defaultParallelism)
        shares = context.parallelize(range(slots), slots)
        while True:
            due = time.monotonic() + EVERY_S
            shares.mapPartitions(lambda mine: copy(task, slots, mine)).collect()
            time.sleep(max(due - time.monotonic(), 0.0))


if __name__ == "__main__":
    main()
