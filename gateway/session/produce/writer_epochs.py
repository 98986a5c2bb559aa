"""Which producers have opened the newest term of a partition: shared by all sessions of a gateway.

A broker takes *any* first sequence from a producer that it does not know, and a new term begins without the state of
the old one. So where a client pipelines, and a batch is refused at the fence while a later one already reaches the new
cluster, the later one would be taken, and the earlier one acknowledged as a duplicate, in no log: lost.

Invariant: the first batch of a producer that a new term takes is the one that follows its last in the terms before.
All others are refused until that one is acknowledged, here or, as the target's own list of producers tells, through
another gateway. The rule ends `WINDOW_S` after the cut: by then nothing refused at the fence is on its way any more,
and a producer whose state has expired everywhere must not be shut out.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.session.produce.producer_order import Key
from ha_core.model import Topic, View
from ha_core.wire.records import Batch
from ha_core.wire.sequences import following

WINDOW_S = 60.0
"""Longer than a client waits for an answer (30 s by default), shorter than it tries to deliver a record (120 s)."""
_MANY_NEWS = 8
"""Of one topic: enough to be gone through although nobody has written to it."""


class WriterEpochs:
    """The newest term of each mapped partition, since when it is known here, and the producers that have opened it.

    A new view is only noted by topic; partitions are gone through when somebody writes to the topic. One revision may
    bring tens of thousands of them.
    """

    def __init__(self) -> None:
        self._view: View | None = None
        self._news: dict[bytes, list[tuple[Topic, float]]] = {}
        """Topic → what it became, and when that was known here."""
        self._began: dict[Key, tuple[int, float]] = {}
        self._crossing: dict[str, Topic] = {}
        self._opened: dict[Key, set[int]] = {}

    def follow(self, view: View, now: float, changed: Iterable[str] | None = None) -> list[bytes]:
        """A new view. Terms of the first one are old: their windows began before this gateway did.

        :param changed: the topics that differ from the view before, where they are known already.
        :return: topics with so much news that somebody has to `catch_up` with them soon.
        """
        before, self._view = self._view, view
        if changed is None:
            changed = changed_topics(before, view)
        known_at = float("-inf") if before is None else now
        many: list[bytes] = []
        for name in changed:
            topic = view.topics.get(name)
            if topic is not None:
                raw = name.encode()
                news = self._news.setdefault(raw, [])
                news.append((topic, known_at))
                if len(news) >= _MANY_NEWS:
                    many.append(raw)
        return many

    def catch_up(self, name: bytes) -> None:
        """Goes through what a topic has become, in order."""
        for topic, now in self._news.pop(name, ()):
            # Where a cut lay ahead, clients write to the term from the end of the crossing on.
            crossed = self._crossing.pop(topic.name, None)
            if topic.crossing is not None:
                self._crossing[topic.name] = topic
                crossed = None
            for partition, extents in topic.partitions.items():
                key = (name, partition)
                term = extents[-1].term
                if self._began.get(key, (-1, 0.0))[0] != term:
                    self._began[key] = (term, now)
                    self._opened.pop(key, None)
                elif crossed is not None and crossed.crosses(partition):
                    self._began[key] = (term, now)

    def watched(self, key: Key, term: int, producer_id: int, now: float) -> bool:
        """Whether the producer has yet to open the term, as far as is known here."""
        self.catch_up(key[0])
        began = self._began.get(key)
        if began is None or began[0] != term:
            return False
        if now - began[1] > WINDOW_S:
            self._opened.pop(key, None)
            return False
        return producer_id not in self._opened.get(key, ())

    def opened(self, key: Key, term: int, producer_id: int) -> None:
        """The target has taken a batch of the producer."""
        self.catch_up(key[0])
        if self._began.get(key, (-1, 0.0))[0] == term:
            self._opened.setdefault(key, set()).add(producer_id)


def changed_topics(before: View | None, after: View) -> list[str]:
    """The topics of a view that are not what they were. Goes through all of them."""
    if before is None:
        return list(after.topics)
    known = before.topics
    return [
        name
        for name, topic in after.topics.items()
        if (then := known.get(name)) is not topic and (then is None or then != topic)
    ]


def opens(batch: Batch, last: tuple[int, int] | None) -> bool:
    """Whether a batch may be the first of its producer in a term.

    :param last: (epoch, last sequence) in the terms before; None if it had written nothing there.
    """
    if last is None or batch.producer_epoch > last[0]:
        return batch.base_sequence == 0
    return batch.producer_epoch == last[0] and batch.base_sequence == following(last[1])
