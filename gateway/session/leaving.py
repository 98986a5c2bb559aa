"""The end of a session that loses nothing: no more is taken from the client, what is in flight is answered first.

A connection that is closed with requests in flight tells the client nothing of them, and it sends them again: those of
a producer without idempotence are written twice.
"""

from __future__ import annotations

from gateway.session import streaming
from gateway.session.commands import Cause, Close
from gateway.session.state import ConnectionState


def leave(session: ConnectionState, cause: Cause, detail: str = "") -> None:
    """The session ends when what is in flight is answered, and what has no answer is executed."""
    if session.closed is None and session.leaving is None:
        session.leaving = Close(cause, detail)
        settle(session)


def settle(session: ConnectionState) -> None:
    """Nothing more comes from the client: what is only half here is given up, and brokers are asked for the end of what
    they do not answer."""
    streaming.cut_off(session)
    streaming.probe(session, everything=True)


def proceed(session: ConnectionState) -> None:
    """Ends the session if nothing of it is in flight any more."""
    leaving = session.leaving
    if leaving is None or session.closed is not None or session.queue:
        return
    if not any(streaming.unsure(upstream) for upstream in session.upstreams.values()):
        session.close(leaving.cause, leaving.detail)
