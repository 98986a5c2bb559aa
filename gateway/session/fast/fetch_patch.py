"""Fetches of mapped topics that the port's broker answers alone, as nearly all are: patched in place.

`FetchPlan` decides what is read where. This module only recognises fetches that a plan would send to the port's broker
as a whole, and writes offsets into their bytes. All others need a plan.

In a fetch session (KIP-227) a broker continues from the offsets that it was asked for, and its answer names partitions
that the request does not. That is correct as long as the session stands (`FetchSession`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.session.fetch.fetch_session import FetchSession, Gap
from gateway.session.pending import Patched
from gateway.session.request import Request, text
from gateway.session.routes import Routes
from ha_core.model.extent import MAX_OFFSET
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.fetch_answer import FetchShift, Shifts
from ha_core.wire.fetch_request import FetchEntries, leave_session

_ENTRIES = {version: FetchEntries(version) for version in range(4, 13)}


class PatchedFetch(NamedTuple):
    """A patched fetch.

    :ivar reads: topics that it waits for.
    :ivar offsets: by the position of their entry, those that the broker is asked for.
    :ivar shifts: patches of its answer.
    :ivar session: the fetch session that it belongs to, or begins; None: none.
    """

    body_at: int
    version: int
    reads: Sequence[bytes]
    offsets: Sequence[tuple[int, int]]
    shifts: Shifts
    session: FetchSession | None

    def pending(self, request: Request) -> Patched:
        return Patched(request, reads=self.reads, in_session=self.session is not None, shifts=self.shifts)

    def write(self, buf: bytearray) -> None:
        if self.session is None:
            leave_session(buf, self.body_at, self.version)
        write = _ENTRIES[self.version].write
        for at, offset in self.offsets:
            write(buf, at, offset)


def patch(
    buf: bytearray,
    body_at: int,
    version: int,
    topics: tuple[bytes, ...],
    entries: Sequence[tuple[int, int]],
    routes: Routes,
    gaps: Mapping[Partition, Gap],
    session: FetchSession | None = None,
) -> PatchedFetch | None:
    """The patches of a fetch that names these topics; None: it needs a plan.

    :param entries: for each topic, as in `TopicEntries`.
    :param session: the standing fetch session that it belongs to, or the one that it begins; None: none.
    """
    entry, offsets, shifts = _ENTRIES[version], list[tuple[int, int]](), dict[tuple[bytes, int], FetchShift]()
    for topic, (first_at, partitions) in zip(topics, entries, strict=True):
        route = routes.topic(topic)
        if route.no_fetch is not None or route.mirror is not None:
            return None
        if route.topic is None:
            continue
        at = first_at
        for partition, offset in entry.read(buf, first_at, partitions):
            open_extent = routes.open_extent(topic, partition)
            if open_extent is None or offset < open_extent.since or (gaps and (text(topic), partition) in gaps):
                return None
            offsets.append((at, min(offset - open_extent.shift.delta, MAX_OFFSET)))
            if session is None:
                shifts[open_extent.key] = open_extent.shift
            at += entry.bytes
    if session is not None:
        return PatchedFetch(body_at, version, session.topics, offsets, session, session)
    return PatchedFetch(body_at, version, topics, offsets, shifts, None) if offsets else None


def patch_one(
    buf: bytearray,
    body_at: int,
    version: int,
    topics: tuple[bytes, ...],
    at: int,
    routes: Routes,
    gaps: Mapping[Partition, Gap],
    session: FetchSession | None,
) -> PatchedFetch | None:
    """Like `patch`, for one partition, as in most fetches, without looking at its topic's route. None: `patch` decides.

    :param topics: its topic, which `patch` has handled on the same routes.
    :param at: position of the partition's entry.
    """
    topic = topics[0]
    partition, offset = _ENTRIES[version].read_one(buf, at)
    open_extent = routes.open_extent(topic, partition)
    if open_extent is None or offset < open_extent.since or (gaps and (text(topic), partition) in gaps):
        return None
    offset -= open_extent.shift.delta
    offsets = ((at, offset if offset < MAX_OFFSET else MAX_OFFSET),)
    if session is not None:
        return PatchedFetch(body_at, version, session.topics, offsets, session, session)
    return PatchedFetch(body_at, version, topics, offsets, {open_extent.key: open_extent.shift}, None)
