"""Transactional producers that hold on to a gateway that has gone: each is told once of a node that it cannot know.

librdkafka takes its coordinator for the same as long as the node is the same (`rd_kafka_txn_coord_set`; 2.16 and
before). The address of a node is another one when its gateway has gone, and whatever answers say of it, such a producer
dials the old one: until somebody listens there again, or for ever, and what it has begun stays open meanwhile.

A node that METADATA does not list has it forget the coordinator, ask for METADATA, and half a second later for the
coordinator once more; then it goes by what it is told. An error would do less: which address the node has it takes from
METADATA, and that may be from before. The address that is told with the node is the true one, so whoever goes by it
(Java, kafka-python) is where it should be, and who looks for the node first asks again (franz-go, kafkajs, aiokafka).

A coordinator that librdkafka has just been told is asked for once more half a second later, because its connection was
closed for the new address. That is no complaint, and to answer it so would begin the same anew.
"""

from __future__ import annotations

import math
from collections import Counter

UNLISTED = 1 << 30
"""Added to a node's id: none that is allocated is so high."""
LASTS_S = 300.0
"""A gateway whose machine has gone is missed when a request has had no answer (60 s), and then a dial (30 s)."""
ECHO_S = 2.0
MAX_OF_USER, MAX_REMEMBERED = 10_000, 100_000
"""Transactional ids come from the wire: who makes them up, or has a new one for each run, leaves others their room."""
_Producer = int
"""Hash of user and transactional id, which may be long."""


class CoordinatorRelease:
    """What the producers of a gateway were told since another gateway has gone."""

    def __init__(self) -> None:
        self._until = -math.inf
        self._sent_away: set[_Producer] = set()
        self._told_at: dict[_Producer, float] = {}
        self._of_user: Counter[int] = Counter()
        """Of how many each user is remembered, by hashes of users."""

    def gone(self, now: float) -> None:
        """A gateway has gone: producers may hold on to it, also those that have let go of another one."""
        self._until = now + LASTS_S
        self._forget()

    def sends_away(self, user: str, transactional_id: str, now: float) -> bool:
        """Whether a producer that asks for its coordinator is to be told of a node that it cannot know."""
        if now >= self._until:
            self._forget()
            return False
        producer = hash((user, transactional_id))
        if producer in self._sent_away:
            self._sent_away.remove(producer)
            self._told_at[producer] = now
            return False
        told_at = self._told_at.get(producer)
        if told_at is None:
            whose = hash(user)
            if self._of_user[whose] >= MAX_OF_USER or len(self._sent_away) + len(self._told_at) >= MAX_REMEMBERED:
                return False
            self._of_user[whose] += 1
        elif now - told_at < ECHO_S:
            return False
        self._told_at.pop(producer, None)
        self._sent_away.add(producer)
        return True

    def _forget(self) -> None:
        self._sent_away.clear()
        self._told_at.clear()
        self._of_user.clear()
