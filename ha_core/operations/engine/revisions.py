"""Revisions of an operation: the documents of each with the versions on which they rest, and their size.

A change that is too large for ZooKeeper is split into several revisions, each valid by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ha_core.model import Document, Operation, Topic, View
from ha_core.model.portions import portions
from ha_core.operations.engine.journal import Journal
from ha_core.plan.engine.revision import AnyOperation, Documents
from ha_core.plan.facts.clusters import Partition
from ha_core.store.commits import Key, StateChange, key_of
from ha_core.store.documents import to_bytes
from ha_core.store.errors import TooLargeError


@dataclass
class Touched:
    """The documents that the operation `writes`, as stored. A commit updates them without a read."""

    journal: Journal[Any]
    documents: dict[Key, Document]
    versions: dict[Key, int | None]

    @classmethod
    def read(cls, journal: Journal[Any]) -> Touched:
        """Read all of them in parallel; the journal's operation becomes the stored one."""
        store = journal.environment.store
        keys = journal.operation.writes
        found = list(journal.environment.pool.map(lambda key: store.read(*key), keys))
        documents = {key: one[0] for key, one in zip(keys, found, strict=True) if one is not None}
        versions = {key: None if one is None else one[1] for key, one in zip(keys, found, strict=True)}
        operation = documents[Operation, journal.operation.id]
        assert isinstance(operation, Operation)
        journal.operation = operation
        return cls(journal, documents, versions)

    @property
    def view(self) -> View:
        """The documents as the planner takes them; the revision has no meaning."""
        named: dict[type[Document], dict[str, Document]] = {}
        for (kind, name), document in self.documents.items():
            named.setdefault(kind, {})[name] = document
        return View.of(0, named)

    def commit(self, documents: Documents, step: str) -> int:
        """Write `documents` as one revision of the operation, and return it. A step may make several."""
        journal, version = self.journal, self.versions[Operation, self.journal.operation.id]
        change = StateChange(
            puts=documents.puts,
            deletes=documents.deletes,
            expected={key: self.versions[key] for key in (*map(key_of, documents.puts), *documents.deletes)},
            change_id=f"{journal.operation.id}:{journal.epoch}:{step}.{version}",
            operation=journal.operation.id,
            epoch=journal.epoch,
            step=step,
        )
        revision = journal.environment.store.commit(change)
        for put in documents.puts:
            key = key_of(put)
            before = self.versions[key]
            self.documents[key] = put
            self.versions[key] = 0 if before is None else before + 1
            if isinstance(put, Operation):
                journal.operation = put
        for key in documents.deletes:
            self.documents.pop(key, None)
            self.versions[key] = None
        return revision


def commit_now(journal: Journal[AnyOperation], change: Callable[[AnyOperation, View], Documents], step: str) -> int:
    """Apply `change` to the documents as they are now. Returns the revision."""
    touched = Touched.read(journal)
    return touched.commit(change(journal.operation, touched.view), step)


MAX_REVISION_BYTES = 700_000
"""For documents; ZooKeeper takes 1 MiB at once, with paths and notes."""
_SEQUENCES_BYTES = 325
"""Per partition, as stored: about 35 producers. With its map that is 2,000 partitions in a run, which is also how many
wait under one fence when a crossing is ended at once."""
MAX_DETAIL_BYTES = 100_000
T = TypeVar("T")


def in_revisions(journal: Journal[Any], names: Iterable[str], topics: Mapping[str, Topic]) -> Iterator[list[str]]:
    """`names` in runs whose documents fit one revision by estimate; `in_parts` splits those that do not."""

    def size(name: str) -> int:
        return len(to_bytes(topics[name])) + _SEQUENCES_BYTES * len(topics[name].partitions)

    return portions(names, MAX_REVISION_BYTES - len(to_bytes(journal.operation)), size)


def in_parts(names: Sequence[str], write: Callable[[Sequence[str]], None]) -> None:
    """`write(names)`, or each half by itself if that is more than ZooKeeper takes: nothing was sent then."""
    try:
        write(names)
    except TooLargeError:
        if len(names) < 2:
            raise
        middle = len(names) // 2
        in_parts(names[:middle], write)
        in_parts(names[middle:], write)


def write_all(
    journal: Journal[Any], names: Iterable[str], topics: Mapping[str, Topic], write: Callable[[Sequence[str]], None]
) -> None:
    """`write` all of `names`, in as few revisions as possible."""
    for run in in_revisions(journal, names, topics):
        in_parts(run, write)


def nested_by_topic(values: Mapping[Partition, T]) -> dict[str, dict[int, T]]:
    """topic → partition → value."""
    found: dict[str, dict[int, T]] = {}
    for topic, partition in sorted(values):
        found.setdefault(topic, {})[partition] = values[topic, partition]
    return found


def bounded(name: str, values: Mapping[Partition, Any]) -> dict[str, Any]:
    """`values` as an entry's detail; only their number if they are too many for the history."""
    found = nested_by_topic(values)
    return {name: found} if len(json.dumps(found)) <= MAX_DETAIL_BYTES else {f"{name}_left_out": len(values)}


BATCH_BYTES = 300_000
"""For maps as stored, and for details; each is a write of its own, of which ZooKeeper takes 1 MiB."""
BATCH_TOPICS = 200


def in_batches(topics: Iterable[Topic], details: Mapping[str, Any]) -> Iterator[list[Topic]]:
    """`topics` in their order, in batches that fit one revision with its note, and one history entry.

    :param details: topic → its detail in the history, JSON-able.
    """

    def size(topic: Topic) -> int:
        return max(len(to_bytes(topic)), len(json.dumps(details.get(topic.name))))

    return portions(topics, BATCH_BYTES, size, BATCH_TOPICS)
