"""What is read from an old cluster is not waited for when that cluster has fallen silent.

A connection that is cut without a word hangs until the client loses patience, and what a healthy cluster gave for the
same answer waits with it. No time is set here: whether a broker is gone is what the topology says, so that a slow one
never gives a reader nothing again and again. It is only asked for sooner.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.session import answers
from gateway.session.commands import BrokerLane, Refresh
from gateway.session.pending import Kind, Slot
from gateway.session.state import ConnectionState

ASK_S = 2.0
"""An answer that is so late lets the gateway look at the clusters anew."""


def watch(session: ConnectionState, slot: Slot, nodes: Iterable[BrokerLane], wait_ms: int) -> None:
    """The answer of `slot` can be made without these; they may take `wait_ms` by themselves."""
    slot.spared = frozenset(nodes)
    if slot.spared:
        slot.ready_at = session.now + wait_ms / 1000 + ASK_S
        session.wake()


def ask(session: ConnectionState) -> None:
    """To be called when time has passed."""
    for slot in session.queue:
        if slot.kind is Kind.GATHER and slot.ready_at <= session.now and not slot.spared.isdisjoint(slot.awaited):
            slot.ready_at = session.now + ASK_S
            session.emit(Refresh())
            session.wake()


def give_up(session: ConnectionState) -> None:
    """To be called with a new topology: answers are made without the brokers that are gone."""
    for slot in tuple(session.queue):
        for lane in slot.spared & slot.awaited if slot.kind is Kind.GATHER else ():
            upstream = session.upstreams.get(lane)
            if upstream is not None and not _there(session, lane):
                answers.forsake(session, slot, upstream)


def _there(session: ConnectionState, lane: BrokerLane) -> bool:
    cluster = session.snapshot.topology.clusters.get(lane.cluster)
    return cluster is not None and cluster.reachable and lane.broker in cluster.brokers
