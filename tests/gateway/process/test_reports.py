"""A revision is reported only when all usage seen before it is in the store."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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


@asynccontextmanager
async def reporting() -> AsyncIterator[tuple[Store, UsageReporter, Reports, list[int]]]:
    """The last is the revisions that were given out, in order: in the end, revision 9."""
    given: list[int] = []
    store = Store()
    sightings = UsageReporter(store.record_usage)
    reports = Reports(sightings, lambda one: given.append(one.revision))
    yield store, sightings, reports, given
    store.free.set()
    for _ in range(200):
        await asyncio.sleep(0.005)
        if given[-1:] == [9]:
            break
    assert not sightings.pending
    assert given in ([9], [8, 9])


async def test_a_report_is_stored_at_once_without_new_usage() -> None:
    async with reporting() as (_, _, reports, given):
        reports.report(record(9))
        assert given == [9]


async def test_a_report_waits_for_usage_seen_before_it() -> None:
    async with reporting() as (_, sightings, reports, given):
        sightings.saw(saw("billing"))
        reports.report(record(9))
        await asyncio.sleep(0.05)
        assert given == []


async def test_a_report_waits_for_usage_that_is_being_written() -> None:
    async with reporting() as (_, sightings, reports, given):
        sightings.saw(saw("billing"))
        writing = asyncio.create_task(sightings.flush())
        await asyncio.sleep(0.02)
        reports.report(record(9))
        await asyncio.sleep(0.02)
        assert given == []
        assert not writing.done()


async def test_usage_that_could_not_be_written_is_retried_before_the_report() -> None:
    async with reporting() as (store, sightings, reports, _):
        store.failures = 1
        sightings.saw(saw("billing"))
        reports.report(record(9))


async def test_a_report_that_waited_never_replaces_a_newer_one() -> None:
    async with reporting() as (_, sightings, reports, _):
        sightings.saw(saw("billing"))
        reports.report(record(8))
        reports.report(record(9))
