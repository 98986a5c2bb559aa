"""A lease that is lost and comes back."""

from __future__ import annotations

from dataclasses import replace

from gateway.session.snapshot import Snapshot
from tests.gateway.session.talk import Talk, snapshot


def lose(talk: Talk) -> None:
    """The process stands still for longer than its lease, or ZooKeeper does."""
    talk.lease.valid_until = talk.now
    talk.now += 10.0


def regain(talk: Talk) -> None:
    """ZooKeeper has confirmed the session again, and whoever waits for it is told."""
    talk.lease.renew(talk.now, 1e9)
    talk.wait(0.0)


def at(revision: int, found: Snapshot) -> Snapshot:
    """The same state, published again: something has changed, somewhere."""
    return snapshot(replace(found.view, revision=revision), found.topology)
