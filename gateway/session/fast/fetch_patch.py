"""Fetches of mapped topics that the port's broker answers alone, as nearly all do: patched where they stand.

`FetchPlan` decides what is read where. Here is only said of which fetches it would send all to the port's broker, and
offsets are written into their bytes. Of all others it is said that they need a plan.

In a fetch session (KIP-227) a broker goes by the offsets that it was asked for, and names partitions that the request
does not. That is right as long as the session stands (`FetchSession`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.fetch.plan import Gap
from gateway.session.pending import Patched
from gateway.session.request import Request, text
from gateway.session.routes import Routes
from ha_core.model.extent import MAX_OFFSET
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.fetch_answer import FetchShift, Shifts
from ha_core.wire.fetch_request import FetchEntries, leave_session

_ENTRIES = {version: FetchEntries(version) for version in range(4, 13)}


class PatchedFetch(NamedTuple):
    """What becomes of a fetch.

    :ivar reads: topics that it waits for.
    :ivar offsets: by the position of their entry, those that the broker is asked for.
    :ivar shifts: what is done to its answer.
    :ivar session: the fetch session that it belongs to, or begins; None: it is outside of any.
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
    """How a fetch that names these topics is patched; None: it needs a plan.

    :param entries: of each topic, as `TopicEntries`.
    :param session: the fetch session that stands and that it belongs to, or that it begins; None: it is of none.
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
            live = routes.live(topic, partition)
            if live is None or offset < live.since or (gaps and (text(topic), partition) in gaps):
                return None
            offsets.append((at, min(offset - live.shift.delta, MAX_OFFSET)))
            if session is None:
                shifts[live.key] = live.shift
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
    """The same of one partition, which is what most fetches name, without a look at its topic's route. None: `patch` is
    to say.

    :param topics: its topic, of which `patch` has said something on the same routes.
    :param at: where the partition's entry is.
    """
    topic = topics[0]
    partition, offset = _ENTRIES[version].read_one(buf, at)
    live = routes.live(topic, partition)
    if live is None or offset < live.since or (gaps and (text(topic), partition) in gaps):
        return None
    offset -= live.shift.delta
    offsets = ((at, offset if offset < MAX_OFFSET else MAX_OFFSET),)
    if session is not None:
        return PatchedFetch(body_at, version, session.topics, offsets, session, session)
    return PatchedFetch(body_at, version, topics, offsets, {live.key: live.shift}, None)
