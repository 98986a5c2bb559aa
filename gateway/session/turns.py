"""Requests of one connection take effect in their order, as on a broker, which executes one of them at a time.

What goes the same way (to one broker, by one connection) is kept in order there, and is pipelined at full speed. Of two
that go different ways the second waits until the first is answered, if it could tell: if both concern the same (logs,
groups, topics), and one of them changes it. Nothing else waits, so a reader's long poll delays no heartbeat. Answers
leave in the order of the requests anyway: a client that waits here waits for the time of one question more.

Invariant: of the requests in flight no two that could tell which was first go different ways.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.session import streaming
from gateway.session.commands import BrokerLane
from gateway.session.pending import Kind
from gateway.session.produce.issuing import issued_by
from gateway.session.routes import Way
from gateway.session.state import ConnectionState
from ha_core.wire import POLICIES, ApiKey, RequestHeader, Route, decode
from ha_core.wire.fetch import scan_fetch_request
from ha_core.wire.policy import peek_group

_LOGS, _GROUPS, _TOPICS = 1, 2, 4
_ALL = _LOGS | _GROUPS | _TOPICS


class Effect(NamedTuple):
    reads: int
    writes: int

    def clashes(self, other: Effect) -> bool:
        """Whether it matters which of the two comes first."""
        return bool(self.writes & (other.reads | other.writes) or self.reads & other.writes)


class Turn(NamedTuple):
    """What a request has to wait for."""

    effect: Effect
    lane: BrokerLane | None
    """Where it goes; None: to several brokers, or by connections that are not the client's."""


_EVERYTHING = Effect(_ALL, _ALL)
_OF_ROUTE = {
    Route.GROUP: Effect(_GROUPS, _GROUPS),
    Route.TRANSACTION: Effect(_LOGS | _GROUPS, _LOGS | _GROUPS),
    Route.NODE: Effect(_LOGS, 0),
    Route.LOCAL: Effect(0, 0),
    Route.HIDDEN: Effect(0, 0),
}
_EFFECTS: dict[int, Effect] = {key: _OF_ROUTE.get(line.route, _EVERYTHING) for key, line in POLICIES.items()} | {
    ApiKey.PRODUCE: Effect(_LOGS, _LOGS),
    ApiKey.DELETE_RECORDS: Effect(_LOGS, _LOGS),
    ApiKey.OFFSET_FETCH: Effect(_GROUPS, 0),
    ApiKey.DELETE_GROUPS: Effect(_GROUPS, _GROUPS),
    ApiKey.OFFSET_DELETE: Effect(_GROUPS, _GROUPS),
    **dict.fromkeys(
        (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_PRODUCERS),
        Effect(_LOGS, 0),
    ),
    **dict.fromkeys((ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS), Effect(_GROUPS, 0)),
    **dict.fromkeys((ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS), Effect(_LOGS | _GROUPS, 0)),
    **dict.fromkeys(
        (
            ApiKey.METADATA,
            ApiKey.FIND_COORDINATOR,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.DESCRIBE_ACLS,
        ),
        Effect(_TOPICS, 0),
    ),
}
"""What is not named changes everything."""
_PRODUCE = int(ApiKey.PRODUCE)


def comes(session: ConnectionState, header: RequestHeader, buf: bytearray, end: int) -> bool:
    """Whether it is the turn of a request: then it may be judged, and sent. If not, `session.turn` says what for.

    :param end: behind the request; of a produce, whose way needs no look at it, behind what has arrived.
    """
    produce = header.api_key == _PRODUCE
    if produce and session.only_produce:
        return True
    line = POLICIES.get(header.api_key)
    if line is None or not line.min_version <= header.api_version <= line.max_version or not session.entered:
        return True  # it goes nowhere
    effect = _EFFECTS[header.api_key]
    turn = Turn(effect, None)
    if not has_come(session, turn):
        turn = Turn(effect, _node(session, header, buf, end))
        if turn.lane is None or not has_come(session, turn):
            for upstream in session.upstreams.values():
                if effect.clashes(_EFFECTS[_PRODUCE]) and upstream.lane != turn.lane:
                    streaming.ask_for_the_end(session, upstream)
            session.turn = turn
            return False
    session.only_produce = produce and all(
        slot.api_key == _PRODUCE for slot in session.queue if slot.kind is not Kind.READY
    )
    return True


def has_come(session: ConnectionState, turn: Turn) -> bool:
    """Whether nothing is in flight any more that has to come first."""
    for slot in session.queue:
        if slot.kind is Kind.READY or (turn.lane is not None and slot.way == turn.lane):
            continue
        if turn.effect.clashes(_EFFECTS.get(slot.api_key, _EVERYTHING)):
            return False
    if not turn.effect.clashes(_EFFECTS[_PRODUCE]):
        return True
    return not any(streaming.unsure(upstream) for upstream in session.upstreams.values() if upstream.lane != turn.lane)


def _node(session: ConnectionState, header: RequestHeader, buf: bytearray, end: int) -> BrokerLane | None:
    """Where a request goes, as far as that is plain before it is handled."""
    key = header.api_key
    here = session.here
    if key == ApiKey.PRODUCE:
        return here
    if key == ApiKey.FETCH:
        routes = session.routes(header.client_id)
        if routes.plain:
            return here
        topics = scan_fetch_request(buf, header.body_at, end, header.api_version).topics
        passes = not routes.closed and all(routes.topic(entry.topic).fetch is Way.PASS for entry in topics)
        return here if passes else None
    route = POLICIES[key].route
    if route is Route.GROUP:
        name = peek_group(key, header.api_version, buf, header.body_at, end)
        return session.routes(header.client_id).group(name).coordinator
    if key == ApiKey.END_TXN:
        limits = session.settings.limits
        body = memoryview(buf)[header.body_at : end]
        producer_id = decode(key, header.api_version, "request", body, limits=limits)["producer_id"]
        return here if issued_by(session.settings.nodes, producer_id).cluster == session.port.cluster else None
    return here if route in (Route.NODE, Route.TRANSACTION) else None
