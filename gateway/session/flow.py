"""What was decided of a request that was passed: requests that are like it go the same way (`fast_path`)."""

from __future__ import annotations

from typing import NamedTuple

from gateway.session.entry import Entry
from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.request import Request
from ha_core.wire.likeness import FetchLike, ProduceLike

MAX_FLOWS = 4
"""That are remembered of a connection: it writes to a few topics, or reads with and without news."""


class Flow(NamedTuple):
    """It ends with what it rests on: the snapshot (`ConnectionState.forget_verdicts`), who the client is, what its
    fetch session holds.
    """

    like: ProduceLike | FetchLike
    request: Request
    entry: Entry
    topics: tuple[bytes, ...] = ()
    """That it writes to."""
    reads: tuple[bytes, ...] = ()
    """That it waits for."""
    fetch_session: FetchSession | None = None
    rack: tuple[int, int] = (0, 0)
    """Where its rack id begins, from its end, and how long it is."""
