"""Decides at which source offset a flow begins a partition that it has never copied.

MirrorMaker 2 leaves that to its consumer: `auto.offset.reset` applies when a task first reads a partition. With
`latest` MirrorMaker 2 skips the records that were written between a topic's creation and its discovery
(`refresh.topics.interval.seconds`, ten minutes by default), and those written before the restart of a task that had
copied nothing yet. For a flow, `latest` means its *first look* at the source, which happens once in the flow's life.
Partitions that exist at the first look begin at the ends that it saw. Later partitions are copied from their start.
"""

from typing import Literal, NamedTuple

BeginsAt = Literal["earliest", "latest"]


class SeenLog(NamedTuple):
    """A partition's log at the flow's first look.

    The first look covers all topics of the source, so a topic that the file names only later is not taken for a new
    one. It is written down before anything is copied: after a restart its ends still apply, and records that were
    written meanwhile are copied.

    :ivar start: log start.
    :ivar end: end for a reader of the flow's isolation (`Isolation.end`), exclusive.
    :ivar topic_id: the topic's id, in hexadecimal; "": the brokers have no topic ids (before 2.8).
    """

    start: int
    end: int
    topic_id: str = ""


def start_offset(begins_at: BeginsAt, first_look: SeenLog | None, topic_id: str = "") -> int:
    """Source offset of the first record to copy, for a partition that was never copied.

    If the log start is above it by now, retention has overtaken the flow, which counts the offsets between.

    :param first_look: None: the partition did not exist at the first look.
    :param topic_id: the topic's current id. A topic that was deleted and created again is a new topic, to which the
        offsets of the old one do not apply.
    """
    if first_look is None or (topic_id and first_look.topic_id and topic_id != first_look.topic_id):
        return 0
    return first_look.end if begins_at == "latest" else first_look.start
