"""Tracks producers that have opened the newest writer epoch of a partition: shared by all sessions of a gateway.

A broker accepts *any* first sequence from a producer that it does not know, and a new writer epoch begins without the
old one's producer state. So if a pipelined batch is refused at the fence while a later one already reaches the new
cluster, the later one would be appended, and the earlier one acknowledged as a duplicate without being in a log: lost.

Invariant: the first batch of a producer in a new writer epoch follows its last one in earlier writer epochs. All others
are refused until that one is acknowledged, here or, as the target's list of producers shows, through another gateway.
The rule ends `WINDOW_S` after the cut: by then no batch refused at the fence is in flight any more, and a producer
whose state has expired everywhere must not be shut out.
"""

from collections.abc import Iterable

from gateway.session.produce.producer_order import Key
from ha_core.model import Topic, View
from ha_core.wire.records import Batch
from ha_core.wire.sequences import following

WINDOW_S = 60.0
"""Longer than a client waits for an answer (30 s by default), shorter than it tries to deliver a record (120 s)."""
_MANY_NEWS = 8
"""Pending changes of one topic that are processed even if no client has written to it."""


class WriterEpochs:
    """The newest writer epoch of each mapped partition, when this gateway learned of it, and the producers that opened
    it.

    A new view is only noted by topic; its partitions are processed when a client writes to the topic. One revision may
    bring tens of thousands of them.
    """

    def __init__(self) -> None:
        self._view: View | None = None
        self._news: dict[bytes, list[tuple[Topic, float]]] = {}
        """Topic → its new states, and when they became known here."""
        self._began: dict[Key, tuple[int, float]] = {}
        self._crossing: dict[str, Topic] = {}
        self._opened: dict[Key, set[int]] = {}

    def follow(self, view: View, now: float, changed: Iterable[str] | None = None) -> list[bytes]:
        """A new view. Writer epochs of the first one are old: their windows began before this gateway did.

        :param changed: topics that differ from the view before, if known already.
        :return: topics with so many pending changes that the caller has to `catch_up` with them soon.
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
        """Processes a topic's pending changes, in order."""
        for topic, now in self._news.pop(name, ()):
            # With a cut ahead, clients write to the writer epoch from the end of the crossing on.
            crossed = self._crossing.pop(topic.name, None)
            if topic.crossing is not None:
                self._crossing[topic.name] = topic
                crossed = None
            for partition, extents in topic.partitions.items():
                key = (name, partition)
                writer_epoch = extents[-1].writer_epoch
                if self._began.get(key, (-1, 0.0))[0] != writer_epoch:
                    self._began[key] = (writer_epoch, now)
                    self._opened.pop(key, None)
                elif crossed is not None and crossed.crosses(partition):
                    self._began[key] = (writer_epoch, now)

    def watched(self, key: Key, writer_epoch: int, producer_id: int, now: float) -> bool:
        """True if the producer has yet to open the writer epoch, as far as this gateway knows."""
        self.catch_up(key[0])
        began = self._began.get(key)
        if began is None or began[0] != writer_epoch:
            return False
        if now - began[1] > WINDOW_S:
            self._opened.pop(key, None)
            return False
        return producer_id not in self._opened.get(key, ())

    def opened(self, key: Key, writer_epoch: int, producer_id: int) -> None:
        """The target has appended a batch of the producer."""
        self.catch_up(key[0])
        if self._began.get(key, (-1, 0.0))[0] == writer_epoch:
            self._opened.setdefault(key, set()).add(producer_id)


def changed_topics(before: View | None, after: View) -> list[str]:
    """Topics of a view that have changed. Iterates over all of them."""
    if before is None:
        return list(after.topics)
    topics = before.topics
    return [
        name
        for name, topic in after.topics.items()
        if (then := topics.get(name)) is not topic and (then is None or then != topic)
    ]


def opens(batch: Batch, last: tuple[int, int] | None) -> bool:
    """True if a batch may be the first of its producer in a writer epoch.

    :param last: (epoch, last sequence) in earlier writer epochs; None if the producer wrote nothing there.
    """
    if last is None or batch.producer_epoch > last[0]:
        return batch.base_sequence == 0
    return batch.producer_epoch == last[0] and batch.base_sequence == following(last[1])
