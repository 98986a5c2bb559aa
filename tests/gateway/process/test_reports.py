"""A revision is reported only when all usage seen before it is in the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.process.membership import Reports
from gateway.process.usage_reporter import UsageReporter
from gateway.session.commands import Saw
from ha_core.model import GatewayRecord, Identity
from ha_core.store.usage import Sighting


def record(revision: int) -> GatewayRecord:
    return GatewayRecord(id="gw-1", host="h", port=1, http="http://h:2", node_id=1, version="1", revision=revision)


def saw(name: str) -> Saw:
    return Saw(Identity("ann", ""), "group", name, "join")


class Store:
    """Writes usage when the test allows it; fails as often as the test wants."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.failures = 0
        self.free = threading.Event()

    def record_usage(self, _user: str, uses: list[Sighting]) -> int:
        assert self.free.wait(10)
        if self.failures:
            self.failures -= 1
            raise OSError("not now")
        self.written += [use.name for use in uses]
        return 0


def play(scene: Callable[[Store, UsageReporter, Reports, list[int]], Coroutine[Any, Any, None]]) -> list[int]:
    """The revisions that were given out, in order."""
    given: list[int] = []

    async def run() -> None:
        store = Store()
        sightings = UsageReporter(store.record_usage)
        reports = Reports(sightings, lambda one: given.append(one.revision))
        await scene(store, sightings, reports, given)
        store.free.set()
        for _ in range(200):
            await asyncio.sleep(0.005)
            if given[-1:] == [9]:
                break
        assert not sightings.pending

    asyncio.run(run())
    return given


def test_a_report_is_stored_at_once_without_new_usage() -> None:
    async def scene(_store: Store, _sightings: UsageReporter, reports: Reports, given: list[int]) -> None:
        reports.report(record(9))
        assert given == [9]

    assert play(scene) == [9]


def test_a_report_waits_for_usage_seen_before_it() -> None:
    async def scene(_store: Store, sightings: UsageReporter, reports: Reports, given: list[int]) -> None:
        sightings.saw(saw("billing"))
        reports.report(record(9))
        await asyncio.sleep(0.05)
        assert given == []

    assert play(scene) == [9]


def test_a_report_waits_for_usage_that_is_being_written() -> None:
    async def scene(_store: Store, sightings: UsageReporter, reports: Reports, given: list[int]) -> None:
        sightings.saw(saw("billing"))
        writing = asyncio.create_task(sightings.flush())
        await asyncio.sleep(0.02)
        reports.report(record(9))
        await asyncio.sleep(0.02)
        assert given == []
        assert not writing.done()

    assert play(scene) == [9]


def test_usage_that_could_not_be_written_is_retried_before_the_report() -> None:
    async def scene(store: Store, sightings: UsageReporter, reports: Reports, _given: list[int]) -> None:
        store.failures = 1
        sightings.saw(saw("billing"))
        reports.report(record(9))

    assert play(scene) == [9]


def test_a_report_that_waited_never_replaces_a_newer_one() -> None:
    async def scene(_store: Store, sightings: UsageReporter, reports: Reports, given: list[int]) -> None:
        sightings.saw(saw("billing"))
        reports.report(record(8))
        reports.report(record(9))

    assert play(scene) in ([9], [8, 9])
