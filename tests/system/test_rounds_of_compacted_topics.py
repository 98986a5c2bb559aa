"""A compacted topic goes to its copy and back under load: the newest acknowledged record of each key is there, except
for a lost tail; and a cluster with such a tail becomes no standby until an operator has removed the obstacle."""

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ha_core.store.store import Store
from stack.clients.process import history_of
from stack.harness import Stack
from stack.history.events import Acked, Sent
from tests.kit.progress import given
from tests.kit.running import CommandFailedError, Run, bind, bootstrap, create_topic, switchyard
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.conftest import MIRRORED_PARTITIONS, MakeRun
from tests.system.mirrored_rounds import OTHER, PATIENCE_S, Rounds, in_client_offsets
from tests.system.nemesis.schedule import Does
from tests.system.watching import assert_no_client_has_failed

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(2400)]
ROUNDS = int(os.environ.get("NEMESIS_ROUNDS", "3"))
KEYS = 40
COMPACTED_SOON = {"segment.ms": "3000", "min.cleanable.dirty.ratio": "0.01"}
JUST_BEFORE_S = 15.0
"""Seconds before a mirror's stop in which its copy may have lagged."""


stack = own_stack(mirror=True, record_facts_s=1)


@dataclass(frozen=True)
class Hole:
    """Client offsets of a partition that only the failed cluster had."""

    partition: int
    start: int
    end: int
    since: float
    """No record acknowledged before this time was lost."""

    def has(self, ack: Acked) -> bool:
        return ack.partition == self.partition and self.start <= ack.offset < self.end


@dataclass
class Compacted(Rounds):
    """The rounds of a topic whose records are compacted."""

    holes: list[Hole] = field(default_factory=list)

    def refused(self, does: Does) -> None:
        """The active cluster fails with a tail. When it is back it becomes the standby only after a new link."""
        self.mirrored()
        since = time.time() - JUST_BEFORE_S
        operation, here = self.fails(does, lags=True), OTHER[self.active]
        for partition, (*copied, last) in self.topic().partitions.items():
            end = max((extent.end or 0 for extent in copied), default=0)
            self.holes.append(Hole(partition, end, last.start, since))
        # The tail is counted, and the reason why it is no standby is reported, with the remedy
        found = self.reconciled(here)
        tails = [tail for tail in found["tails"] if tail["operation"] == operation]
        assert {tail["outcome"] for tail in tails} == {"counted"}
        assert len(tails) == MIRRORED_PARTITIONS
        assert sum(tail["records"] for tail in tails) > 0
        why = found["not_mirrored"][self.name]
        assert "the topic is compacted" in why
        assert "delete the topic there, and link it anew" in why
        assert f"{self.name}@{here}" not in self.store.load().mirrors
        # And that remedy works
        admin = AdminClient({"bootstrap.servers": bootstrap(self.stack, here), "log_level": 3})
        admin.delete_topics([self.name])[self.name].result(60)
        route = ("--from", self.active, "--to", here, "--reason", "anew", "--yes")
        switchyard(self.stack, "mirror", "link", self.name, *route)
        self.verified()

    def reconciled(self, cluster: str) -> dict[str, Any]:
        """Document of the command with the reason why the topic is not mirrored back; leaders may answer late."""
        deadline = time.monotonic() + PATIENCE_S
        command = ("mirror", "reconcile", cluster, self.name, "--reason", "it is back", "--yes")
        while True:
            try:
                found = switchyard(self.stack, *command)
            except CommandFailedError as error:
                if self.name in error.document.get("not_mirrored", {}):
                    return error.document
                if time.monotonic() > deadline:
                    raise
            else:
                raise AssertionError(f"{cluster} became the standby: {found}")
            time.sleep(1.0)

    def judged(self) -> None:
        """The newest acknowledged record of each key is there, at its offset, and is read from the beginning."""
        self.mirrored()
        for producer in self.producers:
            producer.stop()
        logs = in_client_offsets(self.topic(), self.run.dumps(self.name))
        there = {(log.partition, at): value for log in logs for at, value in log.records.items()}
        acked = [ack for ack in self.acknowledged() if ack.offset >= 0]
        assert len(there) < len(acked), "nothing was compacted"
        self.assert_newest_are_in(there, acked)
        until(
            lambda: all({*there.values()} <= {delivery.value for delivery in given(member)} for member in self.members),
            "all is read",
        )
        reader = self.run.start("confluent-consumer", "r-all", self.name, seek="beginning", to_end=True)
        reader.wait(PATIENCE_S)
        for member in self.members:
            member.stop()
        read = {(delivery.partition, delivery.offset): delivery.value for delivery in given(reader)}
        assert len(given(reader)) == len(read)
        self.assert_newest_are_in(read, acked)
        print(f"{len(acked)} acknowledged, {len(there)} left, {len(read)} read")
        assert_no_client_has_failed([*self.producers, *self.members, reader])

    def assert_newest_are_in(self, there: Mapping[tuple[int, int], str], acked: Collection[Acked]) -> None:
        """:param there: (partition, client offset) → value."""
        known = history_of(self.producers).clients.values()
        keys = {event.value: event.key for events in known for event in events if isinstance(event, Sent)}
        newest: dict[tuple[int, str | None], int] = {}
        for (partition, offset), value in there.items():
            key = partition, keys[value]
            newest[key] = max(offset, newest.get(key, -1))
        missing = [ack for ack in acked if newest.get((ack.partition, keys[ack.value]), -1) < ack.offset]
        lost = [next((hole for hole in self.holes if hole.has(ack)), None) for ack in missing]
        odd = [ack for ack, hole in zip(missing, lost, strict=True) if hole is None or ack.t < hole.since]
        assert odd == [], f"{len(odd)} acknowledged records, and none of their keys above them: {odd[:20]}"
        moved = [ack for ack in acked if there.get((ack.partition, ack.offset), ack.value) != ack.value]
        assert moved == [], f"offsets that mean another record: {moved[:20]}"


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_rounds_of_a_compacted_topic_keep_the_newest_of_each_key_and_refuse_a_standby_with_a_tail(
    stack: Stack, store: Store, make_run: MakeRun, name: str, policy: str
) -> None:
    # Given a mirrored topic of few keys that is compacted all the time
    settings = {"cleanup.policy": policy, **COMPACTED_SOON}
    create_topic(bootstrap(stack, "east"), name, MIRRORED_PARTITIONS, **settings)
    bind(stack, name, "east")
    switchyard(stack, "mirror", "link", name, "--from", "east", "--to", "west", "--reason", "standby", "--yes")
    run: Run = make_run(stack, user=name)
    rounds = Compacted(stack, store, run, name, keys=KEYS)
    rounds.begin()
    try:
        for _ in range(ROUNDS):
            # When it is switched to its copy and back, with so many writes in between that some are compacted
            for _ in range(2):
                rounds.go_on(20 * KEYS)
                rounds.planned()
                rounds.verified()
        # And its cluster fails with uncopied records
        rounds.refused(Does.KILL)
        # And it goes back to that cluster when that is the standby again
        rounds.planned()
        rounds.verified()
        # Then the newest record of each key is there
        rounds.judged()
    finally:
        rounds.resume_all()
