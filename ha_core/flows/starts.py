"""Where a flow begins a partition that it has never copied.

MirrorMaker 2 leaves that to its consumer: `auto.offset.reset` counts at the moment at which a task first reads a
partition. With `latest` it loses the records that were written between a topic's creation and its discovery
(`refresh.topics.interval.seconds`, ten minutes by default), and those written before the restart of a task that had
copied nothing yet. A flow takes *from now on* at its word: now is its *first look* at the source, once in its life.
Partitions that exist then begin at their ends of then; later ones are new in the source, and are copied whole.
"""

from typing import Literal, NamedTuple

BeginsAt = Literal["earliest", "latest"]


class SeenLog(NamedTuple):
    """A partition's log at the flow's first look.

    The look covers all topics of the source: a file that names more of them later makes none of them new. It is written
    down before anything is copied: after a restart its ends still count, and records written meanwhile are copied.

    :ivar start: log start.
    :ivar end: end for a reader of the flow's isolation (`Isolation.end`), exclusive.
    """

    start: int
    end: int


def start_offset(begins_at: BeginsAt, first_look: SeenLog | None) -> int:
    """Source offset of the first record to copy, for a partition that was never copied.

    It may be below the log start by now: retention has then overtaken the flow, which counts the records between.

    :param first_look: None: the partition did not exist then.
    """
    if first_look is None:
        return 0
    return first_look.end if begins_at == "latest" else first_look.start
