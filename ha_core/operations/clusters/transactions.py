"""The transactional producers of topics: states that leaders remember, and answers of their coordinators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.mirror.notes import COPIERS
from ha_core.plan.facts.clusters import OpenTransaction, Partition, ProducerFacts

HANGING_S = 900.0
"""By default a broker allows no longer transactions (`transaction.max.timeout.ms`): then its coordinator ends it."""
MAX_ASKED = 1_000
"""Producers to ask coordinators about, for the topics of one look."""
MAX_NAMED = 100
"""Transactional ids, and open transactions, of a topic."""
_UNDER_WAY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})


@dataclass(frozen=True, slots=True)
class Transactions:
    """:ivar producers: the transactional ones, by partition.
    :ivar answers: producer id → transactional id and state, from the coordinators.
    :ivar asked: producers that all coordinators have answered about.
    """

    producers: Mapping[Partition, tuple[ProducerFacts, ...]]
    answers: Mapping[int, tuple[str, str]]
    asked: frozenset[int]

    @classmethod
    def read(
        cls, admin: Admin, producers: Mapping[Partition, tuple[ProducerFacts, ...]], timeout_s: float
    ) -> Transactions:
        """:param producers: states that leaders remember, read before."""
        found = {
            key: some
            for key, all_of in producers.items()
            if (some := tuple(one for one in all_of if one.transactional))
        }
        # Open transactions first: the number of producers to ask about is limited.
        ids = dict.fromkeys(one.producer_id for some in found.values() for one in some if one.in_transaction)
        ids |= dict.fromkeys(one.producer_id for some in found.values() for one in some)
        asked = [*ids][:MAX_ASKED]
        try:
            answers = admin.transactions(asked, timeout_s=timeout_s)
        except KafkaAdminError:
            return cls(found, {}, frozenset())
        # A topic that was a copy has markers of its copiers, which are no client's transactions.
        copiers = {one for one, (name, _) in answers.items() if name.startswith(COPIERS)}
        clients = ((key, tuple(one for one in some if one.producer_id not in copiers)) for key, some in found.items())
        return cls({key: some for key, some in clients if some}, answers, frozenset(asked))

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic for topic, _ in self.producers)

    def ids(self, topic: str) -> tuple[str, ...]:
        known = (self._answer(one)[0] for _, one in self._of(topic))
        return tuple(sorted({name for name in known if name}))[:MAX_NAMED]

    def open(self, topic: str, now_ms: int) -> tuple[OpenTransaction, ...]:
        """Hanging ones first, then the oldest."""
        found = []
        for partition, one in self._of(topic):
            if not one.in_transaction:
                continue
            (name, state), age_s = self._answer(one), max(0.0, (now_ms - one.last_timestamp_ms) / 1000)
            hanging = one.producer_id in self.asked and state not in _UNDER_WAY and age_s > HANGING_S
            found.append(OpenTransaction(partition, one.transaction_start_offset, age_s, name, hanging))
        return tuple(sorted(found, key=lambda one: (not one.hanging, -one.age_s))[:MAX_NAMED])

    def _of(self, topic: str) -> Iterator[tuple[int, ProducerFacts]]:
        for (name, partition), some in sorted(self.producers.items()):
            if name == topic:
                yield from ((partition, one) for one in some)

    def _answer(self, one: ProducerFacts) -> tuple[str, str]:
        return self.answers.get(one.producer_id, ("", ""))
