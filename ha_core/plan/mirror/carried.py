"""The commits that a group should have in a mirror's target, in the kind of offsets that its consumers use. No effects.

- A group of gateway clients commits client offsets, the same in each cluster: they are carried as they are.
- A *direct group*, which reads past the gateways, commits physical offsets of the cluster that it reads: they are
  translated by the map of the copy.

Neither goes backwards in the target, unless it came from the source and the source went back, or its kind has changed.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ha_core.plan.facts.clusters import Partition
from ha_core.plan.mirror.syncing import Committed

Translate = Callable[[Partition, int], int | str]
"""Partition and offset in the source → offset in the target, or why it is not known."""


class WantedCommits(NamedTuple):
    """
    :ivar commits: offsets in the target.
    :ivar ours: partition → the highest offset in the target that an earlier sync may have committed. A higher one is
        another client's.
    :ivar untranslated: partition → why its offset in the target is not known.
    """

    commits: Mapping[Partition, Committed]
    ours: Mapping[Partition, int]
    untranslated: Mapping[Partition, str] = {}


def client_offsets(
    source: Mapping[Partition, Committed], seen: Mapping[Partition, int], checkpoints: Mapping[Partition, int]
) -> WantedCommits:
    """Commits of a group of gateway clients.

    :param seen: the highest offset ever seen in the source; -1 or missing: none.
    :param checkpoints: the target's offsets that an earlier sync has translated, when it was a direct group.
    """
    keys = source.keys() | seen.keys()
    return WantedCommits(source, {key: max(seen.get(key, -1), checkpoints.get(key, -1)) for key in keys})


def translated_offsets(
    source: Mapping[Partition, Committed],
    seen: Mapping[Partition, int],
    checkpoints: Mapping[Partition, int],
    translate: Translate,
) -> WantedCommits:
    """Commits of a direct group.

    :param seen: as for `client_offsets`.
    :param checkpoints: the target's offsets that an earlier sync has translated. Where there is none, an earlier sync
        may have carried the source's numbers as they are.
    """
    commits, untranslated, ours = dict[Partition, Committed](), dict[Partition, str](), dict[Partition, int]()
    for key, (offset, metadata) in source.items():
        place = translate(key, offset)
        if isinstance(place, int):
            commits[key] = place, metadata
        else:
            untranslated[key] = place
    for key, high in seen.items():
        place = translate(key, high) if high >= 0 else -1
        as_it_was = -1 if key in checkpoints else high
        ours[key] = max(place if isinstance(place, int) else -1, as_it_was)
    return WantedCommits(commits, ours, untranslated)
