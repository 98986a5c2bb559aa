"""The newest notes of copies: read of many partitions at once, and only what was appended since."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from ha_core.kafka import notes_of_logs
from ha_core.kafka.notes_of_logs import KnownLogs
from ha_core.kafka.offsets import Leadership
from ha_core.mirror.notes import CopyId, Notes, encode
from ha_core.mirror.progress import CopyDamagedError, Progress, Writer
from ha_core.mirror.split import Record
from ha_core.plan.facts.clusters import Partition
from tests.mirror.logs import packed

ORDERS, BILLS = CopyId("east-west", "orders", 0), CopyId("east-west", "bills", 0)
FIRST, SECOND = ("switchyard-copies", 0), ("switchyard-copies", 1)
LEADER = Leadership(1, 5, "0a" * 16)


class Logs:
    """Partitions of a copy log that answer two records at most.

    :ivar asked: the partitions of each request.
    :ivar read: records that were sent.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *logs: Partition) -> None:
        self.records: dict[Partition, list[tuple[bytes, bytes]]] = {log: [] for log in logs}
        self.asked: list[list[Partition]] = []
        self.read = 0
        self.known = KnownLogs()
        monkeypatch.setattr(notes_of_logs, "log_ends", lambda _, logs: {log: len(self.records[log]) for log in logs})
        monkeypatch.setattr(notes_of_logs, "fetch_each", self._fetch_each)

    def append(self, log: Partition, copy: CopyId, source: int) -> None:
        self.records[log].append(encode(copy, Progress(Writer(1, 0), source, source)))

    def sources(self, copies: Mapping[Partition, Collection[CopyId]], leader: Leadership = LEADER) -> dict[CopyId, int]:
        asking: Any = None
        found = self.known.read(asking, dict.fromkeys(copies, leader), copies, whole_map=True)
        progress = {id_: notes.progress for id_, notes in found.items() if isinstance(notes, Notes)}
        return {id_: one.source for id_, one in progress.items() if one is not None}

    def _fetch_each(
        self, _: Any, logs: list[Partition], at: Mapping[Partition, int], __: Any
    ) -> dict[Partition, tuple[int, bytes]]:
        self.asked.append(sorted(logs))
        answers = {}
        for log in logs:
            some = self.records[log][at[log] : at[log] + 2]
            self.read += len(some)
            records = [Record.of(offset, 0, key, value) for offset, (key, value) in enumerate(some)]
            answers[log] = at[log], packed(at[log], records)
        return answers


def test_a_second_look_reads_only_what_was_appended_and_finds_the_newest_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = Logs(monkeypatch, FIRST)
    for source in range(7):
        logs.append(FIRST, ORDERS, source)
    logs.append(FIRST, BILLS, 50)
    assert logs.sources({FIRST: [ORDERS]}) == {ORDERS: 6}
    assert logs.read == 8

    logs.append(FIRST, ORDERS, 7)

    assert logs.sources({FIRST: [ORDERS, BILLS]}) == {ORDERS: 7, BILLS: 50}
    assert logs.read == 9
    assert logs.sources({FIRST: [ORDERS]}) == {ORDERS: 7}
    assert logs.read == 9


def test_partitions_are_read_in_the_same_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(monkeypatch, FIRST, SECOND)
    for source in range(4):
        logs.append(FIRST, ORDERS, source)
        logs.append(SECOND, BILLS, 10 * source)
    logs.append(SECOND, BILLS, 40)

    assert logs.sources({FIRST: [ORDERS], SECOND: [BILLS]}) == {ORDERS: 3, BILLS: 40}

    assert logs.asked == [[FIRST, SECOND], [FIRST, SECOND], [SECOND]]


@pytest.mark.parametrize(
    "leader",
    [LEADER._replace(epoch=6), LEADER._replace(topic_id="0b" * 16), LEADER._replace(topic_id="")],
    ids=["another leader", "another topic", "unknown topic"],
)
def test_a_log_that_may_be_another_one_is_read_anew(monkeypatch: pytest.MonkeyPatch, leader: Leadership) -> None:
    logs = Logs(monkeypatch, FIRST)
    logs.append(FIRST, ORDERS, 5)
    assert logs.sources({FIRST: [ORDERS]}) == {ORDERS: 5}

    logs.records[FIRST].clear()
    logs.append(FIRST, ORDERS, 3)

    assert logs.sources({FIRST: [ORDERS]}, leader) == {ORDERS: 3}


def test_a_log_that_has_become_shorter_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(monkeypatch, FIRST)
    for source in (5, 6, 7):
        logs.append(FIRST, ORDERS, source)
    assert logs.sources({FIRST: [ORDERS]}) == {ORDERS: 7}

    del logs.records[FIRST][2:]

    assert logs.sources({FIRST: [ORDERS]}) == {ORDERS: 6}


def test_a_key_of_no_copy_is_damage_of_all_copies_of_its_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(monkeypatch, FIRST, SECOND)
    logs.append(SECOND, BILLS, 10)
    logs.append(FIRST, ORDERS, 1)
    logs.records[FIRST].append((b"?", b"?"))
    copies = {FIRST: [ORDERS], SECOND: [BILLS]}

    for _ in ("first look", "second look"):
        found = logs.known.read(None, dict.fromkeys(copies, LEADER), copies, whole_map=True)  # type: ignore[arg-type]

        assert isinstance(found[ORDERS], CopyDamagedError)
        assert isinstance(found[BILLS], Notes)
