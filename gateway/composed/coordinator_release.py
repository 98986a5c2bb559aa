"""Makes transactional producers drop a dead gateway as coordinator, by returning an unknown node once.

librdkafka treats its coordinator as unchanged while the node id is unchanged (`rd_kafka_txn_coord_set`; 2.16 and
before). When a node's gateway is gone, the node gets a new address. Whatever answers say, such a producer dials the old
address until a process listens there again, or forever, and its open transaction stays open meanwhile.

A node that METADATA does not list makes it forget the coordinator, ask for METADATA, and half a second later for the
coordinator again; then it uses the answer. An error would do less: the producer takes the node's address from METADATA,
which may be outdated. The address returned with the unknown node is the true one, so clients that use it (Java,
kafka-python) connect to the right place, and those that look the node up first ask again (franz-go, kafkajs, aiokafka).

librdkafka asks again half a second after each coordinator answer, because it closed its connection for the new address.
That repeated question gets a normal answer: an unknown node would start the cycle again.
"""

import math
from collections import Counter

UNLISTED = 1 << 30
"""Added to a node's id: no allocated id is so high."""
LASTS_S = 300.0
"""A client notices a gateway's dead machine when a request has timed out (60 s), and then a dial (30 s)."""
ECHO_S = 2.0
MAX_OF_USER, MAX_REMEMBERED = 10_000, 100_000
"""Transactional ids come from the wire: a user who makes them up, or has a new one per run, must leave room for
others."""
_Producer = int
"""Hash of user and transactional id, which may be long."""


class CoordinatorRelease:
    """Answers to the producers of a gateway since another gateway has gone."""

    def __init__(self) -> None:
        self._until = -math.inf
        self._sent_away: set[_Producer] = set()
        self._answered_at: dict[_Producer, float] = {}
        self._of_user: Counter[int] = Counter()
        """Remembered producers per user, by hashes of users."""

    def gone(self, now: float) -> None:
        """A gateway has gone: producers may still use it, also those that have dropped another one."""
        self._until = now + LASTS_S
        self._forget()

    def sends_away(self, user: str, transactional_id: str, now: float) -> bool:
        """True if a producer that asks for its coordinator gets an unknown node."""
        if now >= self._until:
            self._forget()
            return False
        producer = hash((user, transactional_id))
        if producer in self._sent_away:
            self._sent_away.remove(producer)
            self._answered_at[producer] = now
            return False
        answered_at = self._answered_at.get(producer)
        if answered_at is None:
            owner = hash(user)
            if self._of_user[owner] >= MAX_OF_USER or len(self._sent_away) + len(self._answered_at) >= MAX_REMEMBERED:
                return False
            self._of_user[owner] += 1
        elif now - answered_at < ECHO_S:
            return False
        self._answered_at.pop(producer, None)
        self._sent_away.add(producer)
        return True

    def _forget(self) -> None:
        self._sent_away.clear()
        self._answered_at.clear()
        self._of_user.clear()
