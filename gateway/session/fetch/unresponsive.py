"""What is read from an old cluster is not waited for when its brokers are unresponsive.

A connection that is cut without a word hangs until the client loses patience, and what a healthy cluster gave for the
same answer waits with it. No time is set here: whether a broker is gone is what the topology says, so that a slow one
never gives a reader nothing again and again. It is only asked for sooner.
"""

from __future__ import annotations

from gateway.session import answers
from gateway.session.commands import BrokerLane, Refresh
from gateway.session.pending import Gathered
from gateway.session.state import ConnectionState

ASK_S = 2.0
"""An answer that is so late lets the gateway look at the clusters anew."""


def ask(session: ConnectionState) -> None:
    """To be called when time has passed."""
    for pending in session.queue:
        if isinstance(pending, Gathered) and pending.due_at <= session.now and _spared(pending):
            pending.due_at = session.now + ASK_S
            session.emit(Refresh())
            session.wake()


def give_up(session: ConnectionState) -> None:
    """To be called with a new topology: answers are made without the brokers that are gone."""
    for pending in tuple(session.queue):
        if not isinstance(pending, Gathered):
            continue
        for lane in _spared(pending):
            upstream = session.upstreams.get(lane)
            if upstream is not None and not _there(session, lane):
                answers.go_without(session, pending, upstream)


def _spared(pending: Gathered) -> frozenset[BrokerLane]:
    """The brokers that it awaits, and without which the answer can be made."""
    return pending.spared & pending.awaited


def _there(session: ConnectionState, lane: BrokerLane) -> bool:
    cluster = session.snapshot.topology.clusters.get(lane.cluster)
    return cluster is not None and cluster.reachable and lane.broker in cluster.brokers
