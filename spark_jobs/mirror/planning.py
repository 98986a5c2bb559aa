"""Who copies what: the mirrors and what is known of their topics in, the documents of slots out. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ha_core.mirror.assignment import assign
from ha_core.model import Mirror, MirrorReport, MirrorShare

Key = tuple[str, int]
"""Key of a mirror, and a partition of its topic."""
REBALANCE_S = 60.0
"""What partitions weigh stays as it is for so long: a burst moves nobody."""
_SMOOTH_S = 120.0
"""Of the mean of bytes/s, which forgets with time."""


def partitions(mirrors: Iterable[Mirror], counts: Mapping[tuple[str, str], int]) -> Iterator[Key]:
    """Those that can be copied: that are there in the source and in the target, and that no operation holds.

    :param counts: (cluster, topic) → how many partitions it has.
    """
    for mirror in mirrors:
        both = [counts.get((cluster, mirror.topic), 0) for cluster in (mirror.source, mirror.target)]
        for partition in range(min(both) if mirror.held is None else 0):
            yield mirror.key, partition


def shares(mirrors: Iterable[Mirror], placed: Mapping[Key, int]) -> dict[int, tuple[MirrorShare, ...]]:
    """slot → what its document says; slots without partitions are missing."""
    known = {mirror.key: mirror for mirror in mirrors}
    by_slot: dict[int, dict[str, list[int]]] = {}
    in_all: dict[str, int] = {}
    for (mirror, partition), slot in sorted(placed.items()):
        by_slot.setdefault(slot, {}).setdefault(mirror, []).append(partition)
        in_all[mirror] = in_all.get(mirror, 0) + 1
    return {
        slot: tuple(_share(known[key], tuple(its), in_all[key]) for key, its in found.items())
        for slot, found in by_slot.items()
    }


def split(max_bytes_s: int | None, its: Iterable[MirrorShare], all_: Iterable[MirrorShare]) -> int | None:
    """What some shares may take of what all together may: by their partitions, so that the sum is never more."""
    if max_bytes_s is None:
        return None
    some, every = (sum(len(one.partitions) for one in shares) for shares in (its, all_))
    return part_of(max_bytes_s, some, every)


def part_of(max_bytes_s: int, some: int, every: int) -> int:
    return max(max_bytes_s * some // max(every, 1), 1)


def _share(mirror: Mirror, its: tuple[int, ...], of: int) -> MirrorShare:
    most = mirror.max_bytes_s
    return MirrorShare(
        mirror=mirror.key,
        topic=mirror.topic,
        source=mirror.source,
        target=mirror.target,
        link=mirror.link,
        log=mirror.log,
        log_partitions=mirror.log_partitions,
        partitions=its,
        max_bytes_s=None if most is None else part_of(most, len(its), of),
    )


@dataclass
class Placement:
    """Where partitions are, over the looks of a driver.

    :ivar placed: partition → slot.
    """

    placed: dict[Key, int] = field(default_factory=dict)
    _means: dict[Key, float] = field(default_factory=dict)
    _weights: dict[Key, float] = field(default_factory=dict)
    _weighed_s: float = float("-inf")
    _measured_s: float = float("-inf")
    _asked: tuple[object, ...] = ()

    def measure(self, reports: Iterable[MirrorReport], now_s: float) -> None:
        """Takes in what tasks have measured since the last time."""
        told = min((now_s - self._measured_s) / _SMOOTH_S, 1.0)
        self._measured_s = now_s
        for report in reports:
            for one in report.partitions:
                key = one.mirror, one.partition
                before = self._means.get(key, float(one.bytes_s))
                self._means[key] = before + (one.bytes_s - before) * told

    def place(self, wanted: Collection[Key], live: Collection[int], now_s: float) -> dict[Key, int]:
        """Spreads partitions over the slots whose tasks run. Without any, everything has to wait.

        A partition whose task has ended goes to another at once; one that has a task keeps it but for the sake of
        balance, which is looked at anew every `REBALANCE_S`, and when slots come.
        """
        if now_s - self._weighed_s >= REBALANCE_S:
            wanted_now = set(wanted)
            self._means = {key: mean for key, mean in self._means.items() if key in wanted_now}
            self._weights, self._weighed_s = dict(self._means), now_s
        slots = sorted(live)
        asked = wanted, slots, self._weighed_s
        if asked == self._asked:
            return self.placed
        self._asked = asked
        if not slots:
            self.placed = {}
            return self.placed
        number = {slot: index for index, slot in enumerate(slots)}
        before = {key: number[slot] for key, slot in self.placed.items() if slot in number}
        found = assign(sorted(wanted), self._weights, len(slots), before)
        self.placed = {key: slots[index] for key, index in found.items()}
        return self.placed
