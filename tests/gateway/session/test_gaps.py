"""Pauses of any part and length: a client that pipelines as librdkafka does never gets OUT_OF_ORDER_SEQUENCE_NUMBER,
for which it would raise its epoch, and double its unanswered batches.

A model of the client, its connections and the broker; sessions are real. Two gateways, each with its own memory.
"""

import random
from dataclasses import dataclass, field

import pytest

from gateway.session.produce.producer_order import ProducerOrders
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import CLIENT_PID, PRODUCE, produce, produced, state
from tests.gateway.session.talk import EAST, Asked, Talk

LEASE_S, IN_FLIGHT, BACKOFF_S = 3.0, 5, 0.1
SHOWED_FAULTS = (32, 49, 56, 74, 81, 87)
"""Seeds that found state that was dropped too soon: five with a batch that had waited in vain, and one where the first
batch came over an old connection."""
REFUSED, OUT_OF_ORDER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


@dataclass
class Gateway:
    orders: ProducerOrders = field(default_factory=ProducerOrders)
    runs_at: float = 0.0
    """It is paused until then."""
    leased_at: float = 0.0
    """It has no lease until then."""


@dataclass
class Connection:
    gateway: Gateway
    talk: Talk
    unread: list[int] = field(default_factory=list)
    """Bytes that the client has sent, and the gateway has not read."""
    owed: list[Asked] = field(default_factory=list)
    """Requests that the broker has appended, and not answered."""
    said: dict[int, int] = field(default_factory=dict)
    """The broker's error codes for these, by request."""
    slow_until: float = 0.0
    left: bool = False


class Play:
    """One producer of one partition, record by record."""

    def __init__(self, seed: int) -> None:
        self.chance, self.now, self.next = random.Random(seed), 100.0, 0
        self.eager = self.chance.choice((1.0, 0.1))
        """The client sends seldom, hears late, and sends batches after one that was refused long ago."""
        self.gateways = [Gateway(), Gateway()]
        self.connections: list[Connection] = []
        self.acknowledged, self.sent, self.again_at, self.drains = 0, 0, 0.0, False
        self.in_flight: list[int] = []
        self.connect()

    def connect(self) -> None:
        """Connects through one of the gateways. The outcome of requests in flight is unknown, and they are resent."""
        if self.connections:
            self.connections[-1].left = True
        gateway = self.chance.choice(self.gateways)
        talk = Talk(state(), producer_orders=gateway.orders)
        self.connections.append(Connection(gateway, talk))
        self.in_flight, self.sent, self.drains = [], self.acknowledged, False
        self.again_at = self.now + self.chance.uniform(0.01, 0.5)

    def step(self) -> None:
        chance = self.chance
        self.now += chance.choice((0.001, 0.01, 0.1, 0.4))
        if chance.random() < 0.015:
            gateway = chance.choice(self.gateways)
            gateway.runs_at = self.now + (stood_s := chance.uniform(0.5, 14.0))
            if stood_s > LEASE_S:
                gateway.leased_at = gateway.runs_at + chance.uniform(0.0, 8.0) * chance.random()
        if chance.random() < 0.05:
            self.connect()
        live = self.connections[-1]
        if chance.random() < 0.03:
            live.slow_until = self.now + chance.uniform(0.5, 9.0)
        self.send(live)
        for connection in list(self.connections):
            if self.now >= connection.gateway.runs_at:
                self.serve(connection)
        self.hear(live)

    def send(self, live: Connection) -> None:
        if self.drains or self.now < self.again_at or self.chance.random() > self.eager:
            return
        for _ in range(self.chance.randrange(IN_FLIGHT + 1 - len(self.in_flight))):
            live.unread.append(self.sent)
            self.in_flight.append(self.sent)
            self.sent += 1

    def serve(self, connection: Connection) -> None:
        """The gateway reads some of the bytes, and passes on finished answers."""
        talk = connection.talk
        talk.now = self.now
        talk.lease.valid_until = 1e9 if self.now >= connection.gateway.leased_at else 0.0
        for _ in range(self.chance.randrange(len(connection.unread) + 1)):
            sequence = connection.unread.pop(0)
            records = batch(producer_id=CLIENT_PID, epoch=0, sequence=sequence)
            talk.ask(PRODUCE, 9, produce(("orders", 0, records)))
        for asked in talk.asked(EAST):
            connection.owed.append(asked)
            connection.said[asked.correlation_id] = self.append(asked)
        talk.wait(0.0)
        while connection.owed and self.now >= connection.slow_until and not talk.session.upstreams[EAST].blocked:
            asked = connection.owed.pop(0)
            talk.answer(EAST, asked, produced(("orders", 0, connection.said[asked.correlation_id], 7)))
        if connection.left and not connection.unread:
            talk.take(talk.session.client_left(self.now))
            talk.session.in_flight.refusals_delivered(self.now)
            self.connections.remove(connection)

    def append(self, asked: Asked) -> int:
        (found,) = batches(asked.records, 0, len(asked.records))
        if found.base_sequence > self.next:
            return OUT_OF_ORDER
        self.next = max(self.next, found.base_sequence + 1)
        return int(ErrorCode.NONE)

    def hear(self, live: Connection) -> None:
        for answer in live.talk.answers():
            code = answer["responses"][0]["partition_responses"][0]["error_code"]
            sequence = self.in_flight.pop(0)
            assert code != OUT_OF_ORDER, f"{sequence} was called out of order, where {self.next} was due"
            if code == REFUSED:
                self.drains = True
            elif not self.drains:
                self.acknowledged = sequence + 1
        if self.drains and not self.in_flight:
            self.drains, self.sent = False, self.acknowledged
            self.again_at = self.now + BACKOFF_S * self.chance.uniform(0.5, 1.5)


@pytest.mark.parametrize("seed", [*range(24), *SHOWED_FAULTS])
def test_a_pipelining_client_never_gets_a_batch_called_out_of_order(seed: int) -> None:
    # Given a producer, and two gateways that pause now and then, and have lost their leases afterwards
    play = Play(seed)
    # When it changes from one to the other, and leaves requests in their sockets
    for _ in range(600):
        play.step()
    # Then no batch overtook another, and the producer gets on
    for gateway in play.gateways:
        gateway.runs_at = gateway.leased_at = 0.0
    for connection in play.connections:
        connection.slow_until = 0.0
    before = play.acknowledged
    for _ in range(400):
        play.now += 0.02
        play.send(play.connections[-1])
        for connection in list(play.connections):
            play.serve(connection)
        play.hear(play.connections[-1])
    assert play.acknowledged > before
    assert play.acknowledged <= play.next
