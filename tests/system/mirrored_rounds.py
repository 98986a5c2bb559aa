"""Rounds of switches of one mirrored topic under load: planned ones, and forced ones after a cluster's failure."""

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ha_core.model import Topic
from ha_core.store.store import Store
from stack.clients.process import history_of
from stack.errors import StackError
from stack.harness import Stack
from stack.history.checker import check
from stack.history.events import Acked
from stack.history.history import LogDump
from stack.history.violation import Violation
from tests.kit.progress import await_more, given
from tests.kit.running import CommandFailedError, Run, switchyard
from tests.kit.waiting import until
from tests.system.conftest import MIRRORED_PARTITIONS
from tests.system.nemesis.schedule import Does
from tests.system.watching import assert_no_client_has_failed

RATE = 40
PATIENCE_S = 240.0
OTHER = {"east": "west", "west": "east"}


@dataclass(frozen=True)
class Loss:
    """Records in the log of a failed cluster that are in no extent."""

    cluster: str
    records: Mapping[tuple[int, int], str]
    """(partition, physical offset) → value."""


@dataclass
class Rounds:
    """One topic with its clients, and their results."""

    stack: Stack
    store: Store
    run: Run
    name: str
    keys: int = 0
    """Number of different keys per producer; 0: no keys."""
    active: str = "east"
    lost: list[Loss] = field(default_factory=list)
    command_s: list[float] = field(default_factory=list)
    """How long each forced switch took."""

    def begin(self) -> None:
        known = {"rate": RATE, "linger_ms": 2, "keys": self.keys}
        self.producers = [
            self.run.start("confluent-producer", "idem", self.name, idempotence="on", **known),
            self.run.start("confluent-producer", "plain", self.name, idempotence="off", acks="all", **known),
        ]
        self.members = [
            self.run.start("confluent-consumer", "r-confluent", self.name, group=f"{self.name}-c", commit="batch"),
            self.run.start("kafka-python-consumer", "r-python", self.name, group=f"{self.name}-p"),
        ]
        self.go_on(100)

    def go_on(self, records: int) -> None:
        """Wait until every client has made this much progress."""
        await_more(records, *self.producers, *self.members, timeout_s=PATIENCE_S)

    def mirrored(self) -> None:
        """Wait until the copy has hardly any lag."""
        there = OTHER[self.active]

        def holds() -> bool:
            reports = [partition for report in self.store.mirror_reports().values() for partition in report.partitions]
            partition_reports = [report for report in reports if report.mirror == f"{self.name}@{there}"]
            return len(partition_reports) == MIRRORED_PARTITIONS and all(
                report.state == "copying" and report.within(2 * RATE) for report in partition_reports
            )

        until(holds, f"it is mirrored to {there}", PATIENCE_S)

    def verified(self) -> None:
        self.mirrored()
        found = switchyard(self.stack, "mirror", "verify", self.name, "--to", OTHER[self.active])
        assert found["equal"], found

    def planned(self) -> None:
        self.mirrored()
        here, there = self.active, OTHER[self.active]
        document = self.run.switch(here, there)
        assert document["result"] == "succeeded", document
        self.assert_only_in(there)
        assert [mirror.source for mirror in self.store.mirrors() if mirror.topic == self.name] == [there]
        self.active = there
        self.go_on(20)

    def assert_only_in(self, cluster: str) -> None:
        """The map names this cluster alone, and no copier copies to it."""
        assert self.topic().clusters == {cluster}
        assert f"{self.name}@{cluster}" not in self.store.load().mirrors

    def topic(self) -> Topic:
        return self.store.load().topics[self.name]

    def fails(self, does: Does, lags: bool) -> str:
        """The writer's cluster fails, the topic goes on at its copy, the failed cluster returns, and gets no clients.
        Returns the operation.

        :param lags: the mirror is stopped for a while before.
        """
        self.mirrored()
        here, there = self.active, OTHER[self.active]
        part = f"cluster/{here}"
        with self.run.fault(f"{does} {here}", settle_s=10.0):
            if lags:
                self.stack.pause("mirror")
                self.go_on(60)
            (self.stack.pause if does is Does.PAUSE else self.stack.kill)(part)
            if does is Does.PAUSE:
                time.sleep(1.0)  # requests are in flight to it from both producers
            begun = time.time()
            document = self.run.switch(here, there, mode="forced", unread="wait")
            self.command_s.append(time.time() - begun)
            assert document["result"] == "succeeded", document
            self.active = there
            self.assert_only_in(there)
            cut = {partition: extents[-1].start for partition, extents in self.topic().partitions.items()}
            self.go_on(60)
            if lags:
                self.stack.resume("mirror")
            back = time.time()
            (self.stack.resume if does is Does.PAUSE else self.stack.restart)(part)
            self.go_on(60)
        # No client is routed to it, or gets an acknowledgement from it
        self.assert_only_in(there)
        late = [ack for ack in self.acknowledged() if ack.t > back and 0 <= ack.offset < cut[ack.partition]]
        assert late == []
        print(f"{does} {here}: {time.time() - begun:.0f} s")
        return str(document["operation"])

    def forced(self, does: Does, lags: bool) -> None:
        """Like `fails`; then the loss is reported, record by record, and the failed cluster becomes the standby."""
        operation, here = self.fails(does, lags), OTHER[self.active]
        lost = self.lost_by(operation, here, self.reconciled(here))
        if lags:
            assert len(lost.records) > 50
        self.lost.append(lost)
        self.verified()

    def lost_by(self, operation: str, cluster: str, found: Mapping[str, Any]) -> Loss:
        """Records of the tails that were found, whose number matches the report."""
        tails = {tail["partition"]: tail for tail in found["tails"] if tail["operation"] == operation}
        assert set(tails) == set(range(MIRRORED_PARTITIONS))
        dumps = {dump.partition: dump for dump in self.run.dumps(self.name) if dump.cluster == cluster}
        lost = {
            (partition, offset): value
            for partition, tail in tails.items()
            for offset, value in dumps[partition].records.items()
            if tail["mirrored"] <= offset < tail["end"]
        }
        assert sum(tail["records"] for tail in tails.values()) == len(lost)
        print(f"{len(lost)} records of {cluster} lost")
        return Loss(cluster, lost)

    def reconciled(self, cluster: str) -> dict[str, Any]:
        """Its leaders may not answer at once."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return switchyard(self.stack, "mirror", "reconcile", cluster, "--reason", "it is back", "--yes")
            except CommandFailedError as error:
                if time.monotonic() > deadline:
                    raise
                print(error)
            time.sleep(1.0)

    def resume_all(self) -> None:
        """Resume parts that a failed test has left paused."""
        for part in ("mirror", "cluster/east", "cluster/west"):
            with suppress(StackError):
                if any(one["part"].startswith(part) and one["state"] == "paused" for one in self.stack.status()):
                    self.stack.resume(part)

    def acknowledged(self) -> list[Acked]:
        known = history_of(self.producers).clients.values()
        return [event for events in known for event in events if isinstance(event, Acked)]

    def judged(self) -> None:
        """The map serves all acknowledged records, less the loss, and all readers get these."""
        self.mirrored()
        for producer in self.producers:
            producer.stop()
        topic, dumps = self.topic(), self.run.dumps(self.name)
        for dump in dumps:
            self.assert_only_losses_are_in_no_extent(topic, dump)
        logs = in_client_offsets(topic, dumps)
        there = {value: (log.partition, at) for log in logs for at, value in log.records.items()}
        lost = {value for loss in self.lost for value in loss.records.values()}
        # Records in no extent were reported, and no acknowledged one is both lost and served
        acked = {ack.value: ack for ack in self.acknowledged()}
        missing = acked.keys() - there.keys()
        assert missing <= lost, sorted(missing - lost)[:20]
        twice = [
            ack
            for value in lost & there.keys() & acked.keys()
            if (ack := acked[value]).offset >= 0 and (ack.partition, ack.offset) not in places(logs, value)
        ]
        assert twice == [], "acknowledged by the one that failed, counted as lost, and delivered nevertheless"
        # And a reader from the beginning gets exactly these, like the members
        reader = self.run.start("confluent-consumer", "r-all", self.name, seek="beginning")
        wanted = {(log.partition, at): value for log in logs for at, value in log.records.items()}
        reader.wait_for(len(wanted), "delivered", PATIENCE_S)
        until(
            lambda: all(there.keys() <= {delivery.value for delivery in given(member)} for member in self.members),
            "all is read",
        )
        for process in (reader, *self.members):
            process.stop()
        assert {(delivery.partition, delivery.offset): delivery.value for delivery in given(reader)} == wanted
        assert len(given(reader)) == len(wanted)
        history = replace(self.run.history(), logs=logs, cuts=())
        result = check(history, complete_readers=[f"{self.name}-c", f"{self.name}-p"])
        odd = [violation for violation in result.violations if not self.follows_from_a_loss(violation, lost)]
        lost_as_told = f"{len(missing)} lost as reported"
        print(f"{len(acked)} acknowledged, {lost_as_told}, {len(wanted)} delivered, {result.excused} excused")
        assert odd == [], "\n".join(map(str, odd[:50]))
        assert_no_client_has_failed([*self.producers, *self.members, reader])

    def assert_only_losses_are_in_no_extent(self, topic: Topic, dump: LogDump) -> None:
        """In the writer's log; the standby's is compared with it."""
        if dump.cluster != topic.writer:
            return
        extents = [extent for extent in topic.partitions[dump.partition] if extent.cluster == dump.cluster]
        beside = {
            (dump.partition, offset): value
            for offset, value in dump.records.items()
            if not any(extent.holds(offset) for extent in extents)
        }
        known = {
            place: value
            for loss in self.lost
            if loss.cluster == dump.cluster
            for place, value in loss.records.items()
            if place[0] == dump.partition
        }
        assert beside == known

    def follows_from_a_loss(self, violation: Violation, lost: Collection[str]) -> bool:
        """A lost record was delivered, and comes again if its producer had no acknowledgement; and a group resumes at
        its last seen offset."""
        return bool(self.lost) and (violation.value in lost or violation.kind == "redelivered")


def places(logs: Collection[LogDump], value: str) -> set[tuple[int, int]]:
    return {(log.partition, at) for log in logs for at, record in log.records.items() if record == value}


def in_client_offsets(topic: Topic, dumps: Collection[LogDump]) -> tuple[LogDump, ...]:
    """Records that the map serves, from all clusters. :raises AssertionError: an offset has two."""
    log_dumps: list[LogDump] = []
    for partition, extents in topic.partitions.items():
        records: dict[int, str] = {}
        for dump in (log_dump for log_dump in dumps if log_dump.partition == partition):
            for extent in (one for one in extents if one.cluster == dump.cluster and not one.ignored):
                for physical, value in dump.records.items():
                    if extent.holds(physical):
                        offset = extent.to_client(physical)
                        assert offset not in records
                        records[offset] = value
        end = max(records, default=-1) + 1
        log_dumps.append(LogDump("all", topic.name, partition, 0, end, dict(sorted(records.items()))))
    return tuple(log_dumps)
