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
    :ivar topic_id: of its topic, in hexadecimal; "": the brokers have none (before 2.8).
    """

    start: int
    end: int
    topic_id: str = ""


def start_offset(begins_at: BeginsAt, first_look: SeenLog | None, topic_id: str = "") -> int:
    """Source offset of the first record to copy, for a partition that was never copied.

    It may be below the log start by now: retention has then overtaken the flow, which counts the records between.

    :param first_look: None: the partition did not exist then.
    :param topic_id: of its topic now. A topic that was deleted and created again is a new one: the offsets of the old
        one say nothing of it.
    """
    if first_look is None or (topic_id and first_look.topic_id and topic_id != first_look.topic_id):
        return 0
    return first_look.end if begins_at == "latest" else first_look.start
