"""The loop of one pair of clusters: its partitions, and those that other tasks have taken."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest

from ha_core.kafka.copying import BUFFER_BYTES, TAKEN_OVER, CopyStatus, CopyTotals
from ha_core.kafka.copying.statuses import CopyCoverage, SourceEnds
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.model import MirrorShare, PartitionReport, Run
from ha_core.store.errors import StoreUnavailableError
from spark_jobs.mirror import pair as pair_module
from spark_jobs.mirror.pair import CopyPair
from tests.kit.waiting import soon

SHARE = MirrorShare(
    mirror="orders@west",
    topic="orders",
    source="east",
    target="west",
    link="l1",
    log="copies",
    log_partitions=4,
    partitions=(0, 1),
)


class FakeCopying:
    made: ClassVar[list[FakeCopying]] = []

    def __init__(
        self,
        source: Any,
        target: Any,
        copies: Iterable[CopyPartition],
        *,
        still_ours: Callable[[Collection[CopyId]], set[CopyId]],
        work: CopyTotals,
        buffer_bytes: int,
    ) -> None:
        self.ready, self.work, self.buffer_bytes = still_ours, work, buffer_bytes
        self.limits: tuple[float | None, Mapping[tuple[str, str], float]] = (None, {})
        self.known: Mapping[CopyId, CopyCoverage] = {}
        self.begun = Counter(copy.id for copy in copies)
        self.gone: list[CopyId] = []
        self.states: dict[CopyId, CopyStatus] = {id_: CopyStatus("copying", 5, SourceEnds(9, 9)) for id_ in self.begun}
        self.ended = threading.Event()
        self.fails: Exception | None = None
        FakeCopying.made.append(self)

    def add(self, copies: Iterable[CopyPartition]) -> None:
        for copy in copies:
            self.begun[copy.id] += 1
            self.states[copy.id] = CopyStatus("copying", 0, SourceEnds(0, 0))

    def drop(self, ids: Iterable[CopyId]) -> None:
        self.gone += ids

    def limit(self, in_all: float | None, mirrors: Mapping[tuple[str, str], float]) -> None:
        self.limits = in_all, mirrors

    def hold(self, buffer_bytes: int) -> None:
        self.buffer_bytes = buffer_bytes

    def statuses(self) -> dict[CopyId, CopyStatus]:
        return self.states

    def stop(self) -> None:
        self.ended.set()

    def run(self) -> None:
        self.ended.wait(10)
        if self.fails:
            raise self.fails


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The copy logs that were ensured."""
    made: list[tuple[str, int]] = []
    monkeypatch.setattr(pair_module, "Copying", FakeCopying)
    monkeypatch.setattr(pair_module, "ensure_copy_log", lambda _, name, partitions: made.append((name, partitions)))
    monkeypatch.setattr(pair_module, "RETRY_S", 0.01)
    FakeCopying.made.clear()
    return made


def opened(pair: CopyPair, count: int = 1) -> FakeCopying:
    soon(lambda: len(FakeCopying.made) == count)
    return FakeCopying.made[-1]


def started(still_ours: Callable[[CopyId], bool] = lambda _: True) -> tuple[CopyPair, FakeCopying]:
    pair = CopyPair("east", "west", lambda _: nullcontext(), still_ours)  # type: ignore[arg-type,return-value]
    copying = opened(pair)
    pair.follow((SHARE,))
    return pair, copying


def id_of(partition: int) -> CopyId:
    return CopyId("l1", "orders", partition)


def test_new_partitions_are_added_missing_ones_dropped_and_others_left_alone() -> None:
    pair, copying = started()

    pair.follow((SHARE.changed(partitions=(1, 2)),))
    pair.follow((SHARE.changed(partitions=(1, 2)),))

    assert copying.begun == {id_of(0): 1, id_of(1): 1, id_of(2): 1}
    assert copying.gone == [id_of(0)]
    assert [report.partition for report in pair.report()] == [1, 2]
    pair.stop()
    pair.join()


def test_report_has_the_status_of_a_partition() -> None:
    pair, copying = started()
    copying.states[id_of(0)] = CopyStatus(
        "copying", 5, SourceEnds(8, 9), lag_ms=20, lag_bytes=40, rpo_s=0.3, bytes_s=1_000.4
    )

    first, _ = pair.report()

    told = first.model_dump(exclude={"topic", "partition"}, exclude_defaults=True)
    assert told == {
        "mirror": "orders@west",
        "state": "copying",
        "source": 5,
        "source_end": 8,
        "lag_records": 4,
        "lag_bytes": 40,
        "lag_ms": 20,
        "rpo_s": 1,
        "bytes_s": 1_000,
    }
    pair.stop()


def test_the_lag_of_a_partition_that_has_stopped_is_reported_as_unknown() -> None:
    pair, copying = started()
    copying.states[id_of(0)] = CopyStatus("stopped", None, None, "the source was truncated", rpo_s=140.2)

    first, _ = pair.report()

    assert (first.lag_records, first.source, first.source_end, first.rpo_s) == (None, None, None, 141)
    assert PartitionReport.model_validate_json(first.model_dump_json(exclude_none=True)) == first
    pair.stop()


def test_reports_of_earlier_versions_that_say_minus_one_are_read_as_unknown() -> None:
    told = {"mirror": "orders@west", "topic": "orders", "partition": 0, "state": "stopped"}
    old = PartitionReport.model_validate(told | {"source": -1, "source_end": -1, "lag_records": 0})
    assert (old.source, old.source_end, old.lag_records) == (None, None, None)
    known = PartitionReport.model_validate(told | {"source": 5, "source_end": 5, "lag_records": 0})
    assert known.lag_records == 0


def test_coverage_is_reported_for_partitions_that_are_copied_here() -> None:
    pair, copying = started()
    assert list(pair.copied()) == []
    elsewhere, nothing = id_of(7), CopyCoverage(3, True, ())
    copying.known = {
        id_of(0): CopyCoverage(9, True, (Run(2, 0, 3), Run(6, 3, 3)), 4),
        id_of(1): nothing,
        elsewhere: nothing,
    }

    ((mirror, id_, copied),) = pair.copied()

    assert (mirror, id_) == ("orders@west", id_of(0))
    assert (copied.end, copied.level, copied.runs) == (9, True, (Run(2, 0, 3), Run(6, 3, 3)))
    assert copied.start == 4
    pair.stop()


def limits_of(copying: FakeCopying) -> tuple[float | None, Mapping[tuple[str, str], float]]:
    """Current limits: for the attribute itself a type checker assumes earlier assertions."""
    return copying.limits


def test_limit_of_a_mirror_changes_without_a_restart() -> None:
    pair, copying = started()
    assert limits_of(copying) == (None, {})
    limited, bills = SHARE.changed(max_bytes_s=1_000), SHARE.changed(mirror="bills@west", topic="bills")
    # When one of two mirrors of a link is limited, and all that the pair copies
    pair.follow((limited, bills), 5_000)
    assert limits_of(copying) == (5_000, {("l1", "orders"): 1_000})
    pair.follow((SHARE, bills), None)
    assert limits_of(copying) == (None, {})
    # Then no loop was stopped for it
    assert copying.gone == []
    assert set(copying.begun.values()) == {1}
    pair.stop()


def test_buffer_limit_applies_now_and_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_module, "RETRY_S", 0.01)
    pair, copying = started()
    assert copying.buffer_bytes == BUFFER_BYTES
    pair.hold(BUFFER_BYTES // 2)
    assert copying.buffer_bytes == BUFFER_BYTES // 2
    copying.ended.set()
    soon(lambda: len(FakeCopying.made) == 2)
    assert FakeCopying.made[-1].buffer_bytes == BUFFER_BYTES // 2
    pair.stop()


def test_partition_taken_over_by_mistake_is_taken_back_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, copying = started()
    copying.states[id_of(0)] = CopyStatus("stopped", None, None, TAKEN_OVER)
    copying.states[id_of(1)] = CopyStatus("stopped", None, None, "retention has overtaken the copy")

    assert [report.state for report in pair.report()] == ["stopped", "stopped"]
    list(pair.report())
    assert copying.begun == {id_of(0): 1, id_of(1): 1}

    monkeypatch.setattr(pair_module, "RETAKE_S", 0.0)
    list(pair.report())
    list(pair.report())
    assert copying.begun == {id_of(0): 2, id_of(1): 1}
    pair.stop()


def test_takeover_waits_for_the_copy_log_and_the_assignment(logs: list[tuple[str, int]]) -> None:
    answers: list[bool | Exception] = [StoreUnavailableError("ZooKeeper is away"), True, False]

    def still_ours(_: CopyId) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    pair, copying = started(still_ours)

    with pytest.raises(StoreUnavailableError, match="ZooKeeper is away"):
        copying.ready({id_of(0)})
    assert copying.ready({id_of(0)})
    assert not copying.ready({id_of(0)})
    assert not copying.ready({id_of(7)}), "it was dropped meanwhile"
    assert logs == [("copies", 4)]
    pair.stop()


def test_failed_loop_restarts_and_reports_the_reason() -> None:
    pair, copying = started()
    copying.fails = RuntimeError("a bug")
    copying.stop()

    copying.work.copied_records = 7
    again = opened(pair, 2)
    again.work.copied_records += 2

    assert again.begun == {id_of(0): 1, id_of(1): 1}
    assert pair.work().copied_records == 9
    pair.stop()


def test_a_cluster_that_is_away_is_the_reason_of_all_its_partitions() -> None:
    def away(cluster: str) -> Any:
        raise KafkaAdminError(cluster, "is away.")

    pair = CopyPair("east", "west", away, lambda _: True)
    pair.follow((SHARE,))
    soon(lambda: {report.reason for report in pair.report()} == {"Cluster east: is away."})

    assert [report.state for report in pair.report()] == ["waiting", "waiting"]
    pair.stop()
    pair.join()
