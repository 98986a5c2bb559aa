"""A lease that is lost and regained."""

from dataclasses import replace

from gateway.session.snapshot import Snapshot
from tests.gateway.session.talk import Talk, snapshot


def lose(talk: Talk) -> None:
    """The process, or ZooKeeper, pauses for longer than the lease."""
    talk.lease.valid_until = talk.now
    talk.now += 10.0


def regain(talk: Talk) -> None:
    """ZooKeeper has confirmed the session again, and the waiting session is ticked."""
    talk.lease.renew(talk.now, 1e9)
    talk.wait(0.0)


def at(revision: int, found: Snapshot) -> Snapshot:
    """Republishes the state under another revision: a change elsewhere."""
    return snapshot(replace(found.view, revision=revision), found.topology)
