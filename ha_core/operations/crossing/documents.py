"""Revisions of a crossing, and what of them the history keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ha_core.model import Operation, Topic
from ha_core.operations.context import Environment
from ha_core.operations.documents import Touched
from ha_core.operations.journal import Journal
from ha_core.plan.facts import Partition
from ha_core.plan.move import Documents
from ha_core.store.documents import to_bytes
from ha_core.store.errors import StoreUnavailableError, TooLargeError

MAX_REVISION_BYTES = 700_000
"""Of documents; ZooKeeper takes 1 MiB at once, with paths and notes."""
_SEQUENCES_BYTES = 325
"""Of a partition, as stored: about 35 producers. With its map that is 2,000 partitions in a run, which is also how many
wait behind one fence when a crossing is ended at once."""
MAX_DETAIL_BYTES = 100_000
PATIENCE_S = 60.0


def patiently(environment: Environment, action: Callable[[], None]) -> None:
    """Take back what clients wait for, also while ZooKeeper is away for a moment.

    :raises StoreUnavailableError: it was away all the time. A resume takes it back.
    """
    deadline = environment.monotonic() + PATIENCE_S
    while True:
        try:
            return action()
        except StoreUnavailableError as error:
            if environment.monotonic() >= deadline:
                raise
            environment.say(f"the way back waits for ZooKeeper: {error}")
            environment.sleep(1.0)


def commit(journal: Journal, touched: Touched, documents: Documents, step: str) -> int:
    """One revision, under a change id of its own: a step may make several."""
    version = touched.versions[Operation, journal.operation.id]
    return touched.commit(journal, documents, f"{step}.{version}")


def in_revisions(journal: Journal, names: Iterable[str], topics: Mapping[str, Topic]) -> Iterator[list[str]]:
    """`names` in runs whose documents are written at once; what is too many all the same, `in_parts` writes."""
    run: list[str] = []
    of_operation = written = len(to_bytes(journal.operation))
    for name in names:
        more = len(to_bytes(topics[name])) + _SEQUENCES_BYTES * len(topics[name].partitions)
        if run and written + more > MAX_REVISION_BYTES:
            yield run
            run, written = [], of_operation
        run.append(name)
        written += more
    if run:
        yield run


def in_parts(names: Sequence[str], write: Callable[[Sequence[str]], None]) -> None:
    """`write(names)`, or each half by itself where that is more than ZooKeeper takes: nothing was sent then."""
    try:
        write(names)
    except TooLargeError:
        if len(names) < 2:
            raise
        middle = len(names) // 2
        in_parts(names[:middle], write)
        in_parts(names[middle:], write)


def remaining_in(documents: Documents, names: Collection[str]) -> dict[str, Any]:
    """For the history: partitions of `names` that were added meanwhile, and remain in the origin."""
    (operation,) = (put for put in documents.puts if isinstance(put, Operation))
    found = {name: new for name, new in operation.evidence.get("remaining", {}).items() if name in names}
    return {"remaining_in_origin": found} if found else {}


def by_topic(values: Mapping[Partition, Any]) -> dict[str, dict[str, Any]]:
    """topic → partition, as JSON has it → value."""
    found: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in sorted(values.items(), key=lambda entry: entry[0]):
        found.setdefault(topic, {})[str(partition)] = value
    return found


def bounded(name: str, values: Mapping[Partition, Any]) -> dict[str, Any]:
    """`values` as an entry's detail; where they are too many for the history, only how many."""
    found = by_topic(values)
    return {name: found} if len(json.dumps(found)) <= MAX_DETAIL_BYTES else {f"{name}_left_out": len(values)}
