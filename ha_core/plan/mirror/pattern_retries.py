"""When a topic that could not be linked is tried again, so that neither brokers nor the history are flooded.

A check that refuses a topic leaves no trace in the history, so it is repeated soon. An operation that was undone leaves
its entries for ever: its topics are tried again one by one, and more and more rarely, so that one topic that cannot be
linked does not keep the others from it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

REFUSED_AGAIN_S, REFUSED_LONGEST_S = 10.0, 300.0
FAILED_AGAIN_S, FAILED_LONGEST_S = 60.0, 3600.0
ALONE_EVERY_S = 300.0
"""Pause between two operations of single topics that failed before."""
BATCH_AGAIN_S, BATCH_LONGEST_S = 10.0, 600.0
"""Pause after operations of topics that had not failed before."""


class Trouble(NamedTuple):
    """Why a topic was not linked at its last attempt."""

    code: str
    reason: str
    failed: bool
    """An operation was undone, so that the history has grown."""
    attempts: int
    again_s: float


def pause_s(attempts: int, first_s: float, longest_s: float) -> float:
    """Seconds after so many attempts in a row."""
    return min(first_s * 2.0 ** min(attempts - 1, 30), longest_s)


@dataclass
class LinkRetries:
    """The topics of one route that could not be linked. Times are those of one monotonic clock, in seconds.

    :ivar troubles: by topic.
    """

    troubles: dict[str, Trouble] = field(default_factory=dict)
    _batch_again_s: float = 0.0
    _alone_again_s: float = 0.0
    _batches_failed: int = 0

    def due(self, names: Iterable[str], now_s: float, most: int) -> list[str]:
        """The topics to link in the next operation: now and then one that has failed before, else new ones and refused
        ones together.

        :param names: topics that stand as due.
        """
        fresh, failed = list[tuple[float, str]](), list[tuple[float, str]]()
        for name in names:
            trouble = self.troubles.get(name)
            again_s = -1.0 if trouble is None else trouble.again_s
            if again_s <= now_s:
                (failed if trouble is not None and trouble.failed else fresh).append((again_s, name))
        if failed and self._alone_again_s <= now_s:
            return [min(failed)[1]]
        if fresh and self._batch_again_s <= now_s:
            return [name for _, name in sorted(fresh)[:most]]
        return []

    def refused(self, name: str, code: str, reason: str, now_s: float) -> None:
        """A check has refused the topic."""
        before = self.troubles.get(name)
        failed, attempts = before is not None and before.failed, 1 if before is None else before.attempts + 1
        pauses = (FAILED_AGAIN_S, FAILED_LONGEST_S) if failed else (REFUSED_AGAIN_S, REFUSED_LONGEST_S)
        self.troubles[name] = Trouble(code, reason, failed, attempts, now_s + pause_s(attempts, *pauses))

    def failed(self, names: Collection[str], reason: str, now_s: float) -> None:
        """The operation of these topics was undone."""
        known = [self.troubles.get(name) for name in names]
        if all(trouble is not None and trouble.failed for trouble in known):
            self._alone_again_s = now_s + ALONE_EVERY_S
        else:
            self._batches_failed += 1
            self._batch_again_s = now_s + pause_s(self._batches_failed, BATCH_AGAIN_S, BATCH_LONGEST_S)
        for name, trouble in zip(names, known, strict=True):
            attempts = trouble.attempts + 1 if trouble is not None and trouble.failed else 1
            again_s = now_s + pause_s(attempts, FAILED_AGAIN_S, FAILED_LONGEST_S)
            self.troubles[name] = Trouble("undone", reason, True, attempts, again_s)

    def linked(self, names: Iterable[str]) -> None:
        """The operation of these topics has succeeded."""
        for name in names:
            self.troubles.pop(name, None)
        self._batches_failed, self._batch_again_s = 0, 0.0

    def keep_only(self, names: Collection[str]) -> None:
        """Forget the others: they are linked, gone, or not due any more."""
        self.troubles = {name: trouble for name, trouble in self.troubles.items() if name in names}

    def at_once(self) -> None:
        """An operator has changed the patterns: try all of them again. Their reasons are kept."""
        self.troubles = {name: trouble._replace(again_s=0.0, attempts=1) for name, trouble in self.troubles.items()}
        self._batch_again_s, self._alone_again_s, self._batches_failed = 0.0, 0.0, 0
