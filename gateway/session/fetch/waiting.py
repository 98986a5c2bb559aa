"""Fetches that wait at a broker, when a new snapshot shows that their topic has left its cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from gateway.session.commands import Drop
from gateway.session.context import SessionContext
from gateway.session.fetch.fetch_session import no_records, once_each
from gateway.session.in_flight import RequestsInFlight
from gateway.session.pending import Passed
from gateway.session.request import text
from gateway.session.snapshot import Snapshot
from gateway.session.upstream import Upstreams
from ha_core.model import Topic, View

LONG_POLL_MS = 500
"""An abandoned poll is not waited for if it may take longer than the clients' default."""


def wake_readers(in_flight: RequestsInFlight, upstreams: Upstreams, context: SessionContext, before: View) -> None:
    """Answers fetches that wait where their topic has just left, so that the client retries: nothing is appended there
    any more. An answer that has come and waits for the lease is replaced, too: it may hold records appended after the
    topic had left."""
    snapshot = context.snapshot
    left_in: dict[str, Callable[[Sequence[bytes]], bool]] = {}
    for pending in tuple(in_flight.queue) if snapshot.view.topics is not before.topics else ():
        if isinstance(pending, Passed) and pending.lane is not None:
            cluster = pending.lane.cluster
            left = left_in.get(cluster)
            if left is None:
                left = left_in[cluster] = once_each(partial(_any_left, before, snapshot, cluster), unseen=True)
            if left(pending.reads):
                in_flight.abandon(pending, pending.request.answer(no_records(pending.in_session)))
                _leave_abandoned(upstreams, context, pending)
    in_flight.flush()


def _any_left(before: View, snapshot: Snapshot, cluster: str, topics: Sequence[bytes]) -> bool:
    return any(_left(before, snapshot, cluster, topics))


def _left(before: View, snapshot: Snapshot, cluster: str, topics: Sequence[bytes]) -> Iterator[bool]:
    """For each topic, True if it is now read elsewhere, or at other offsets, than in this cluster before."""
    after, known = snapshot.view, snapshot.stays
    for name in map(text, topics):
        then, now = before.topics.get(name), after.topics.get(name)
        if now is then or now is None or not now.mapped:
            continue
        key = (before.revision, after.revision, cluster, name)
        stays = known.get(key)
        if stays is None:
            stays = known[key] = _stays(then if then is not None and then.mapped else None, now, cluster)
        yield not stays


def _stays(then: Topic | None, now: Topic, cluster: str) -> bool:
    """True if a fetch that waits in a cluster for a topic's newest records still waits at the right place.

    :param then: None: the topic had no map, so offsets were the cluster's.
    """
    if then is not None and then.partitions == now.partitions:
        return True
    for partition, extents in now.partitions.items():
        newest = extents[-1]
        if then is None:
            same = len(extents) == 1 and newest.cluster == cluster and newest.shift == 0
        elif then.damaged(partition):
            same = False
        elif then.crosses(partition) or then.written(partition).cluster != cluster:
            continue  # it was read elsewhere, or by short polls
        else:
            same = newest.same_stay(then.written(partition))
        if not same or now.crosses(partition) or now.damaged(partition):
            return False
    return True


def _leave_abandoned(upstreams: Upstreams, context: SessionContext, pending: Passed) -> None:
    """Moves the client's next fetch to a new connection if the broker may hold the abandoned poll for long.

    A broker answers in order, so the next fetch would wait for the poll's end. This is done only if nothing else is in
    flight there: a new connection for every reader would cost more than the default poll takes."""
    lane = pending.lane
    upstream = None if lane is None else upstreams.get(lane)
    if lane is not None and upstream is not None and pending.waits_ms > LONG_POLL_MS and upstream.abandoned():
        del upstreams[lane]
        context.emit(Drop(lane))
