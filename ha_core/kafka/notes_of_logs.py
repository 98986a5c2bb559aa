"""The newest notes of copies, from partitions of the copy log.

A partition has a note for each appended batch of each of its copies, until it is compacted: ten thousand notes take a
fifth of a second to read. Clients wait for a takeover, which may read notes only after it has fenced the copiers. So
partitions are read at once and not one after the other, and a process that has read one before, as for the plan of a
switch, reads only what was appended since.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ha_core.kafka.brokers import Asking
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.offsets import Leadership, apart
from ha_core.kafka.tails import fetch_each, log_ends, notes_in, or_raise, take_below
from ha_core.mirror.notes import CopyId, Notes, copy_of, is_page, key_prefix, prefix_of
from ha_core.mirror.progress import CopyDamagedError
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.records import Batch


@dataclass
class LogNotes:
    """The newest note of each key in a partition of the copy log, below `end`.

    :ivar log_id: topic id and leader epoch of the log; empty: unknown (brokers before 2.8).
    """

    log_id: str = ""
    end: int = 0
    _newest: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes) -> None:
        """:raises CopyDamagedError: no copy can be told by the key."""
        prefix = prefix_of(key)
        if prefix not in self._newest:
            copy_of(key)  # raises if no copy can be told
            self._newest[prefix] = {}
        self._newest[prefix][key] = value  # the last one counts: most are replaced, and need no decoding

    def take(self, fetched: tuple[int, bytes], end: int) -> None:
        """Add the notes of an answer that lie below `end`.

        :raises CopyDamagedError: see `add`.
        """
        kept = list[Batch]()
        at = take_below(fetched, end, kept)
        if kept:
            for key, value in notes_in(fetched[1][: kept[-1].end]):
                self.add(key, value)
        self.end = at

    def notes(self, copy: CopyId, whole_map: bool) -> Notes | CopyDamagedError:
        """:param whole_map: with the pages of older runs."""
        notes = Notes(copy, whole_map)
        try:
            for key, value in self._newest.get(key_prefix(copy), {}).items():
                if whole_map or not is_page(key):
                    notes.add(key, value)
        except CopyDamagedError as error:
            return error
        return notes


class KnownLogs:
    """The notes that were read of a cluster's copy log. Thread-safe."""

    def __init__(self) -> None:
        self._logs: dict[Partition, LogNotes] = {}
        self._guard = threading.Lock()

    def read(
        self,
        asking: Asking,
        leaders: Mapping[Partition, Leadership],
        copies: Mapping[Partition, Collection[CopyId]],
        whole_map: bool,
    ) -> dict[CopyId, Notes | CopyDamagedError]:
        """The notes of `copies`, by the partition that has them, from all records up to its current end. A partition
        that cannot be read is damage of all its copies.

        :param leaders: of the partitions, as they were before.
        """
        with self._guard:
            damaged = self._read_on(asking, {log: _log_id(leaders.get(log)) for log in copies})
            found: dict[CopyId, Notes | CopyDamagedError] = {}
            for log, some in copies.items():
                for copy in some:
                    found[copy] = damaged.get(log) or self._logs[log].notes(copy, whole_map)
            return found

    def _read_on(self, asking: Asking, ids: Mapping[Partition, str]) -> dict[Partition, CopyDamagedError]:
        """Read what was appended since; returns the partitions that cannot be read."""
        ends = {log: or_raise(end) for log, end in log_ends(asking, ids).items()}
        for log, log_id in ids.items():
            known = self._logs.get(log)
            # Another leader may have other records below this end, and another topic has.
            if known is None or not log_id or log_id != known.log_id or known.end > ends[log]:
                self._logs[log] = LogNotes(log_id)
        damaged: dict[Partition, CopyDamagedError] = {}

        def fetched(logs: list[Partition]) -> dict[Partition, tuple[int, bytes] | KafkaAdminError]:
            return fetch_each(asking, logs, {log: self._logs[log].end for log in logs}, ends)

        while left := [log for log in ids if log not in damaged and self._logs[log].end < ends[log]]:
            for log, answer in apart(left, fetched, CopyDamagedError).items():
                try:
                    if isinstance(answer, CopyDamagedError):
                        raise answer
                    self._logs[log].take(or_raise(answer), ends[log])
                except CopyDamagedError as damage:
                    damaged[log] = damage
                    del self._logs[log]
        return damaged


def _log_id(leader: Leadership | None) -> str:
    return "" if leader is None or not leader.topic_id else f"{leader.topic_id}/{leader.epoch}"
