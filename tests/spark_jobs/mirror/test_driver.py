"""The driver and its tasks, over a store in memory, without Spark and without clusters."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest

from ha_core.mirror.notes import CopyId
from ha_core.model import (
    CopiedPartition,
    Document,
    Mirror,
    MirrorReport,
    MirrorShare,
    MirrorTask,
    PairWork,
    PartitionReport,
    Run,
)
from ha_core.plan.mirror.total import MirrorTotal
from ha_core.store.commits import StateChange
from spark_jobs.mirror import task as task_module
from spark_jobs.mirror.driver import Driver, Spark
from spark_jobs.mirror.progress_log import ProgressLog, lag_text, states
from spark_jobs.mirror.task import SlotTask, TaskSettings
from stack.memory_store import MemoryStore
from tests.kit.waiting import soon

AT = "2026-11-23T02:00:00Z"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.mirror.driver.LOOK_S", 0.02)
    monkeypatch.setattr("spark_jobs.mirror.driver.RESTART_S", 0.05)
    monkeypatch.setattr("spark_jobs.mirror.driver.SETTLE_S", 0.5)
    monkeypatch.setattr(task_module, "LOOK_S", 0.02)
    monkeypatch.setattr(task_module, "CopyPair", FakePair)


class FakePair:
    """Copies nothing, and reports that it does."""

    made = 0
    limits: ClassVar[dict[threading.Thread, tuple[float | None, int]]] = {}
    """Limits of each task's pair: in total, and per mirror."""

    def __init__(self, source: str, target: str, *_: object) -> None:
        FakePair.made += 1
        self.shares: tuple[MirrorShare, ...] = ()

    def follow(self, shares: tuple[MirrorShare, ...], max_bytes_s: float | None) -> None:
        self.shares = shares
        FakePair.limits[threading.current_thread()] = max_bytes_s, sum(share.max_bytes_s or 0 for share in shares)

    def hold(self, buffer_bytes: int) -> None:
        pass

    def report(self) -> Iterator[PartitionReport]:
        for share in self.shares:
            for number in share.partitions:
                yield PartitionReport(mirror=share.mirror, topic=share.topic, partition=number, state="copying")

    def work(self) -> PairWork:
        return PairWork(id="w", source="east", target="west", copied_records=5)

    def copied(self) -> Iterator[tuple[str, CopyId, CopiedPartition]]:
        for share in self.shares:
            for number in share.partitions:
                copied_partition = CopiedPartition.of(5, True, [Run(0, 0, 5)])
                yield share.mirror, CopyId(share.link, share.topic, number), copied_partition

    def stop(self) -> None:
        self.shares = ()

    def join(self) -> None:
        pass


class FakeCounts:
    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def of(self, mirrors: list[Mirror]) -> dict[tuple[str, str], int]:
        return {
            (cluster, mirror.topic): self.partitions for mirror in mirrors for cluster in (mirror.source, mirror.target)
        }


class Job:
    """A driver whose tasks are threads, each with a store session.

    :ivar tasks: slot → store of the task that runs there.
    """

    def __init__(self, store: MemoryStore, slots: int = 2, partitions: int = 4, max_bytes_s: int | None = None) -> None:
        self.store = store.client()
        self.counts = FakeCounts(partitions)
        self.tasks: dict[int, MemoryStore] = {}
        self.started: list[int] = []
        self.slots = slots
        self.sessions, self.open = 0, 0
        self.cancelled: list[int] = []
        self.useless_sessions = 0
        """Number of first sessions in which nothing can be started."""
        self.driver = Driver(self.store, self.counts, self._session, max_bytes_s=max_bytes_s)  # type: ignore[arg-type]
        self.thread = threading.Thread(target=self.driver.run, daemon=True)

    @contextmanager
    def _session(self) -> Iterator[Spark]:
        self.sessions, self.open = self.sessions + 1, self.open + 1
        try:
            yield Spark(self._run, lambda: self.slots, lambda _, slot: self._cancel(slot))
        finally:
            self.open -= 1

    def _cancel(self, slot: int) -> None:
        self.cancelled.append(slot)

    def _run(self, job: str, slot: int) -> str:
        if self.sessions <= self.useless_sessions:
            raise RuntimeError("NO_ACTIVE_SESSION")
        store = self.store.client()
        self.started.append(slot)
        self.tasks[slot] = store
        try:
            return SlotTask(store, TaskSettings("", "", {}, 1.0, 1.0, job), slot).run()
        finally:
            store.close()


@contextmanager
def running(job: Job) -> Iterator[Job]:
    job.thread.start()
    try:
        yield job
    finally:
        job.driver.stop()
        job.thread.join(10)
        assert not job.thread.is_alive()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def link(store: MemoryStore, *topics: str) -> None:
    mirrors = [Mirror.of(topic, "east", "west", f"link-{topic}", AT, "ann") for topic in topics]
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None for mirror in mirrors}
    store.commit(StateChange(change_id=f"link {topics}", puts=tuple(mirrors), expected=expected))


def unlink(store: MemoryStore, topic: str) -> None:
    store.uproot(f"/mirrors/{topic}%40west")


def copied(store: MemoryStore) -> dict[tuple[str, int], int]:
    """Partition → slot that reports copying it."""
    return {
        (partition.topic, partition.partition): slot
        for slot, report in store.mirror_reports().items()
        for partition in report.partitions
    }


@contextmanager
def copying_orders(store: MemoryStore) -> Iterator[Job]:
    """A job that copies the four partitions of a mirror."""
    link(store, "orders")
    with running(Job(store)) as job:
        soon(lambda: len(copied(store)) == 4, lambda: copied(store))
        yield job


def leads(store: MemoryStore) -> set[str]:
    return {report.job for report in store.mirror_reports().values()}


def test_mirrors_come_grow_and_go_without_stopping_unmoved_partitions(store: MemoryStore) -> None:
    with copying_orders(store) as job:
        orders = copied(store)
        assert sorted(orders.values()) == [0, 0, 1, 1]

        link(store, "bills")
        soon(lambda: len(copied(store)) == 8)
        assert {key: slot for key, slot in copied(store).items() if key[0] == "orders"} == orders

        job.counts.partitions = 6
        soon(lambda: len(copied(store)) == 12)
        assert {key: copied(store)[key] for key in orders} == orders

        unlink(store, "bills")
        soon(lambda: {topic for topic, _ in copied(store)} == {"orders"})
        assert {key: copied(store)[key] for key in orders} == orders
        assert sorted(job.started) == [0, 1]
    # When stopped, it releases the slots and the lead
    assert store.mirror_reports() == {}
    read = store.read(MirrorTask, "0")
    assert read is not None
    assert (read[0].job, read[0].shares) == ("", ())


def test_limits_reach_all_tasks_split_by_partitions_and_change_while_they_run(store: MemoryStore) -> None:
    link(store, "orders")
    FakePair.limits.clear()
    with running(Job(store, max_bytes_s=1_000_000)) as job:
        soon(lambda: sorted(FakePair.limits.values()) == [(500_000, 0)] * 2, lambda: FakePair.limits)
        # When the mirror is limited as well
        found = store.read(Mirror, "orders@west")
        assert found is not None
        limited = found[0].changed(max_bytes_s=40_000)
        store.commit(StateChange(change_id="limit", puts=(limited,), expected={(Mirror, limited.key): found[1]}))
        # Then each task has its part of both limits, without a restart
        soon(lambda: sorted(FakePair.limits.values()) == [(500_000, 20_000)] * 2, lambda: FakePair.limits)
        assert sorted(job.started) == [0, 1]


def test_coverage_of_copies_is_reported_while_the_task_lives(store: MemoryStore) -> None:
    link(store, "orders")
    told = store.follow_mirror_copies().read

    def partitions() -> list[tuple[str, str, int]]:
        found = ((mirror, number) for copies in told() for mirror in copies.mirrors for number in mirror.partitions)
        return sorted((mirror.mirror, mirror.link, number) for mirror, number in found)

    with running(Job(store)):
        wanted = [("orders@west", "link-orders", number) for number in range(4)]
        soon(lambda: partitions() == wanted, partitions)
        unlink(store, "orders")
        soon(lambda: partitions() == [], partitions)
    assert told() == []


def test_unreadable_mirror_is_left_alone_and_logged(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    # Given a mirror whose document is damaged from the beginning, and two that are copied
    link(store, "orders", "bills")
    store.plant("/mirrors/broken%40west", b"{")
    with running(Job(store)) as job:
        soon(lambda: len(copied(store)) == 8)
        started, made = list(job.started), FakePair.made
        # When one of them becomes unreadable as well
        store.plant("/mirrors/orders%40west", b'{"schema": 2}')
        soon(lambda: "mirror orders@west cannot be read" in caplog.text)
        # Then a new one is copied, and the others still are, by their old tasks
        link(store, "users")
        soon(lambda: len(copied(store)) == 12, lambda: copied(store))
        assert (job.started, FakePair.made) == (started, made)
        assert {topic for topic, _ in copied(store)} == {"orders", "bills", "users"}
        # When it is ended, then it goes
        unlink(store, "orders")
        soon(lambda: len(copied(store)) == 8, lambda: copied(store))
    # and each was logged once, not once a second
    said = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert [words.partition(":")[0] for words in said] == [
        "mirror broken@west cannot be read and is left alone, it is not copied",
        "mirror orders@west cannot be read and is left alone, its tasks go on until they are taken over",
    ]


def test_a_lead_that_never_read_a_mirror_does_not_begin_it(store: MemoryStore) -> None:
    link(store, "orders", "bills")
    with running(Job(store)):
        soon(lambda: len(copied(store)) == 8)
        store.plant("/mirrors/orders%40west", b"{")
    with running(Job(store)):
        soon(lambda: len(copied(store)) == 4, lambda: copied(store))
        assert {topic for topic, _ in copied(store)} == {"bills"}


def test_without_mirrors_no_task_is_started(store: MemoryStore) -> None:
    with running(Job(store)) as job:
        time.sleep(0.3)
        assert job.started == []


def test_slot_without_a_running_task_gets_no_partitions(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    link(store, "orders")
    job = Job(store, slots=3)
    run, waits = job._run, threading.Event()

    def queued(lead: str, slot: int) -> str:
        return run(lead, slot) if slot < 2 else str(waits.wait(8))

    monkeypatch.setattr(job, "_run", queued)
    with running(job):
        soon(lambda: len(copied(store)) == 4)
        assert set(copied(store).values()) == {0, 1}
        waits.set()
        job.driver._ending.set()


def test_ended_task_is_restarted_while_others_copy(store: MemoryStore) -> None:
    with copying_orders(store) as job:
        # When a task's session ends, another has its slot by then
        store.uproot("/mirror_reports/1")
        thief = store.client()
        thief.plant("/mirror_reports/1", b"{}")
        # Then the other task copies all partitions
        soon(lambda: set(copied(store).values()) == {0} and len(copied(store)) == 4, lambda: copied(store))
        soon(lambda: job.started.count(1) > 1)
        # And once the slot is free, its next task takes a part
        store.uproot("/mirror_reports/1")
        soon(lambda: sorted(copied(store).values()) == [0, 0, 1, 1], lambda: (copied(store), job.started))


def test_one_driver_leads_and_its_successor_takes_all_slots(store: MemoryStore) -> None:
    with copying_orders(store) as first:
        before = leads(store)
        with running(Job(store)) as second:
            time.sleep(0.3)
            assert second.started == []
            # When the session of the first one ends (it stood still), and the second one takes the lead
            first.store.suspend()
            store.uproot("/mirror_jobs/mirror")
            soon(lambda: sorted(second.started) == [0, 1], lambda: second.started)
            soon(lambda: leads(store).isdisjoint(before) and len(copied(store)) == 4)
            after = leads(store)
            # Then the first one, when it continues, writes nothing and starts nothing
            first.store.resume()
            time.sleep(0.5)
            assert leads(store) == after
            assert len(copied(store)) == 4
            assert sorted(first.started) == [0, 1]
        # And it takes over when the second one ends
        soon(lambda: len(first.started) == 4 and len(copied(store)) == 4, lambda: first.started)


@pytest.mark.parametrize("away", ["the driver", "a task"])
def test_tasks_continue_while_the_driver_or_one_of_them_cannot_reach_the_store(store: MemoryStore, away: str) -> None:
    with copying_orders(store) as job:
        cut_off = job.store if away == "the driver" else job.tasks[0]
        cut_off.suspend()
        time.sleep(0.3)
        assert len(copied(store)) == 4
        cut_off.resume()
        link(store, "bills")
        soon(lambda: len(copied(store)) == 8)
        assert sorted(job.started) == [0, 1]


def test_driver_logs_the_state_of_a_mirror_in_one_line() -> None:
    mirror = Mirror.of("orders", "east", "west", "link-1", AT, "ann")
    stopped = PartitionReport(mirror=mirror.key, topic="orders", partition=1, state="stopped", reason="retention")
    copying = stopped.changed(partition=0, state="copying", reason="")

    assert states(mirror, {("east", "orders"): 3, ("west", "orders"): 2}, [copying, stopped]) == (
        "1 copying, 1 stopped, 3 partitions in east, 2 in west, 1 of them: retention"
    )
    assert states(mirror, {}, []) == "nothing is known of it yet"


def test_driver_logs_the_lag_of_a_mirror_with_unknown_values() -> None:
    lags = {"source_end": 9, "lag_records": 4, "lag_bytes": 400, "lag_ms": 1_500, "rpo_s": 3, "bytes_s": 2_000_000}
    stopped = PartitionReport(mirror="m", topic="orders", partition=1, state="stopped", rpo_s=70)
    copying = stopped.changed(state="copying", **lags)

    assert lag_text(MirrorTotal.of([copying, copying, stopped])) == (
        "8 records (1 of 3 partitions unknown), 800 bytes, lag 1.5 s, RPO 70 s, 4.0 MB/s"
    )
    assert lag_text(MirrorTotal.of([])) == "? records, ? bytes, lag ? s, RPO ? s, 0.0 MB/s"


def test_driver_logs_the_worst_partitions_each_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given three partitions, one of which has stopped and one of which lags
    monkeypatch.setattr("spark_jobs.mirror.progress_log.MAX_PARTITIONS", 2)
    mirror = Mirror.of("orders", "east", "west", "link-1", AT, "ann")
    lags = {"source_end": 9, "lag_records": 4, "lag_bytes": 400, "lag_ms": 1_500, "rpo_s": 3, "bytes_s": 2_000_000}
    lagging = PartitionReport(mirror=mirror.key, topic="orders", partition=0, state="copying").changed(**lags)
    stopped = PartitionReport(mirror=mirror.key, topic="orders", partition=1, state="stopped", rpo_s=70)
    level = lagging.changed(partition=2, lag_records=0, rpo_s=0)
    reports = {0: MirrorReport(slot=0, job="j", partitions=(lagging, stopped, level))}
    progress_log = ProgressLog()
    # When changes are logged twice within a minute
    with caplog.at_level(logging.INFO):
        progress_log.log_changes([mirror], {}, reports, 100.0)
        progress_log.log_changes([mirror], {}, reports, 101.0)
    # Then the two worst are logged once, the one with the largest possible loss first
    told = [record.message for record in caplog.records if ": partition " in record.message]
    assert told == [
        "orders@west: partition 1 stopped; ? records, ? bytes, lag ? s, RPO 70 s, 0.0 MB/s",
        "orders@west: partition 0 copying; 4 records, 400 bytes, lag 1.5 s, RPO 3 s, 2.0 MB/s",
    ]


def test_task_with_a_lost_session_takes_its_partitions_over_again(store: MemoryStore) -> None:
    with copying_orders(store) as job:
        before = FakePair.made
        job.tasks[0].expire_session()
        soon(lambda: FakePair.made == before + 1 and len(copied(store)) == 4)
        assert sorted(job.started) == [0, 1]


def test_only_the_leading_driver_holds_a_spark_session(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.mirror.driver._END_S", 0.2)
    with copying_orders(store) as first, running(Job(store)) as second:
        time.sleep(0.2)
        assert (first.open, second.sessions) == (1, 0)
        # When another driver leads, after a loss of the session in ZooKeeper
        store.uproot("/mirror_jobs/mirror")
        store.client().plant("/mirror_jobs/mirror", b"{}")
        # Then the former leader releases its session
        soon(lambda: (first.open, second.open) == (0, 0))
        # When no driver leads
        store.uproot("/mirror_jobs/mirror")
        # Then one of them does, and only that one holds a session
        soon(lambda: first.open + second.open == 1)
        soon(lambda: len(leads(store)) == 1 and len(copied(store)) == 4)


def test_session_without_live_tasks_is_replaced(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.mirror.driver.FAILING_S", 0.5)
    link(store, "orders")
    job = Job(store)
    # Given a session that its server has forgotten
    job.useless_sessions = 1
    with running(job):
        # Then another one is opened, and tasks copy in it
        soon(lambda: len(copied(store)) == 4)
        assert job.sessions == 2


def test_silent_task_is_cancelled(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.mirror.driver.SILENT_S", 0.3)
    cancelled = threading.Event()

    class Hanging(Job):
        """The first task of slot 0 hangs after its first report."""

        def _run(self, job: str, slot: int) -> str:
            if slot or slot in self.started:
                return super()._run(job, slot)
            self.started.append(slot)
            store = self.store.client()
            claim = store.register(MirrorReport(slot=slot, job=job))
            soon(lambda: len(copied(self.store)) > 0)
            claim.close()
            cancelled.wait(10)
            store.close()
            return "cancelled"

        def _cancel(self, slot: int) -> None:
            super()._cancel(slot)
            cancelled.set()

    link(store, "orders")
    with running(Hanging(store)) as job:
        soon(lambda: job.cancelled == [0])
        soon(lambda: job.started.count(0) == 2 and len(copied(store)) == 4)


def test_unneeded_slots_are_released(store: MemoryStore) -> None:
    link(store, "orders", "bills")
    with running(Job(store, slots=3)) as job:
        soon(lambda: len(store.mirror_reports()) == 3)
        # When there are fewer partitions than slots
        job.counts.partitions = 1
        soon(lambda: set(store.mirror_reports()) == {0, 1}, store.mirror_reports)
        # When there are none
        unlink(store, "orders")
        unlink(store, "bills")
        soon(lambda: store.mirror_reports() == {})
        # When there are some again
        link(store, "again")
        soon(lambda: set(copied(store)) == {("again", 0)})


def test_documents_of_a_large_fleet_are_written_in_portions(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.mirror.driver._WRITE_BYTES", 200)
    written: list[int] = []
    write = MemoryStore.write_mirror_tasks

    def counted(self: MemoryStore, tasks: dict[int, tuple[MirrorTask, int | None]]) -> dict[int, int]:
        sizes = [len(task.to_bytes()) for task, _ in tasks.values()]
        written.append(sum(sizes) if len(sizes) > 1 else 0)
        return write(self, tasks)

    monkeypatch.setattr(MemoryStore, "write_mirror_tasks", counted)
    link(store, *(f"topic-{number}" for number in range(10)))
    with running(Job(store, slots=4, partitions=4)):
        soon(lambda: len(copied(store)) == 40)
    assert max(written) <= 200


def test_a_second_attempt_at_a_task_neither_returns_nor_copies_while_the_first_one_runs(store: MemoryStore) -> None:
    # Given a task that copies, of which Spark runs a speculative copy
    link(store, "orders")
    ended: list[str] = []
    with running(Job(store, slots=1)):
        soon(lambda: len(copied(store)) == 4)
        (lead,) = leads(store)
        second = SlotTask(store.client(), TaskSettings("", "", {}, 1.0, 1.0, lead), 0)
        thread = threading.Thread(target=lambda: ended.append(second.run()), daemon=True)
        thread.start()
        # Then the task does not return, which Spark would take for its end
        thread.join(1.5)
        assert ended == []
    # When the lead is over
    thread.join(10)
    # Then it ends, without ever having copied
    assert ended == [task_module.NOT_OURS]


def test_foreign_node_does_not_prevent_leading(store: MemoryStore) -> None:
    store.plant("/mirror_tasks/old-slot", b"{}")
    link(store, "orders")
    with running(Job(store)):
        soon(lambda: len(copied(store)) == 4)
