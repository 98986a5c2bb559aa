"""Pre-flight of the size of a move's revision, so that one that is too large fails here, not under the fence.

A move is one revision, and a revision is one write. Its size is estimated from counts; the numbers below are bytes of
stored documents, rather too high than too low.
"""

from ha_core.plan.facts.verdict import Verdicts, amount, error
from ha_core.plan.move.carry_over import MAX_TOPIC_SEQUENCES
from ha_core.plan.preflight.case import PreflightCase

REVISION_BYTES = 1_000_000
"""ZooKeeper accepts 1 MiB per write."""
_PER_DOCUMENT = 500
"""Its node, its path there and in the note, fields of every document."""
_OPERATION = 1_300
"""The operation without its evidence of topics, and the note."""
_PER_PARTITION = 33
"""Two extents in the map; the cut and the origin's end in the evidence."""
_PER_EXTENT = 14
"""Each further extent."""
_PER_MIRROR = 1_000
"""Its end, and its evidence. Extents of its copy are limited to the remaining room."""
_PER_ASKED = 30
"""A partition whose producers were read."""
SEQUENCE_BYTES = 6
"""The last sequence of one producer in one partition."""
_PER_MEMBER = 160
"""An alias of a group's member."""
_PER_USER = 400


def revision_bytes(case: PreflightCase) -> int:
    """Approximate size of the cut's revision."""
    request = case.request
    size = _OPERATION + _PER_USER * len(request.scope.named_users)
    for name in case.moves.groups:
        group = case.facts.group(request.origin, name)
        size += _PER_DOCUMENT + 2 * len(name) + _PER_MEMBER * (len(group.members) if group is not None else 0)
    return size + sum(topic_bytes(case, name) for name in case.moves.topics)


def topic_bytes(case: PreflightCase, name: str) -> int:
    """Approximate size that one topic adds: its map, its evidence, and the last sequences of its producers."""
    here, document, old = case.here(name), case.view.topics.get(name), case.view.sequences.get(name)
    extents = document.partitions if document is not None else {}
    partitions = max(len(extents), here.partitions if here is not None else 0)
    producers = (here.producers if here is not None else 0) + sum(map(len, old.partitions.values() if old else ()))
    size = _PER_DOCUMENT + 3 * len(name) + _PER_PARTITION * partitions + _PER_EXTENT * sum(map(len, extents.values()))
    if name in case.to_copies:
        ending = sum(mirror.topic == name for mirror in case.view.mirrors.values())
        size += _PER_MIRROR * ending + _PER_PARTITION * partitions
    if producers:
        size += _PER_DOCUMENT + len(name) + _PER_ASKED * partitions
    return size + SEQUENCE_BYTES * min(producers, MAX_TOPIC_SEQUENCES)


def too_large(case: PreflightCase) -> Verdicts:
    size = revision_bytes(case)
    if size <= REVISION_BYTES:
        return
    request, moves = case.request, case.moves
    sizes = {name: topic_bytes(case, name) for name in moves.topics}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    yield error(
        "too-large",
        "size",
        f"{amount(len(moves.topics), 'topic')} and {amount(len(moves.groups), 'group')} move in one revision of about "
        f"{size / 1e6:.1f} MB, and ZooKeeper accepts {REVISION_BYTES / 1e6:.0f} MB. The largest topics are "
        f"{', '.join(f'{name} ({sizes[name] / 1e6:.2f} MB)' for name in largest)}.",
        f"Move the topics first, in as many revisions as they need: `switchyard migrate TOPIC… --from {request.origin} "
        f"--to {request.target}`; then the rest of this move. Or name fewer, or single partitions: topic:NAME:0-24.",
    )
