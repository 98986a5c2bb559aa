"""Hands flows over from a real MirrorMaker 2 to our copier, and back, on the same internal topics.

From MirrorMaker 2, after it was stopped and before a copier begins::

    state = ConnectState.dedicated("A")
    require_stopped(target, state)
    offsets = read_source_offsets(settings_of_the_target, state)
    handed = handed_copies(source, target, copies, offsets)     # changes nothing; `exact` and `reason` are for people
    begin_copies(source, target, state, handed)                 # fences, and writes first notes; safe to repeat

To MirrorMaker 2, every minute and after the copiers have stopped::

    producer = offsets_producer(settings_of_the_target)
    ensure_offsets_topic(target, state)
    write_source_offsets(producer, state, {copy.source_key: next_source_offset, …})

If copiers were killed: `write_source_offsets(producer, state, ended_copies(target, copies))`.
"""

from ha_core.mirror_maker.handover.errors import HandoverError as HandoverError
from ha_core.mirror_maker.handover.errors import refused as refused
from ha_core.mirror_maker.handover.offsets_topic import OffsetsProducer as OffsetsProducer
from ha_core.mirror_maker.handover.offsets_topic import ensure_offsets_topic as ensure_offsets_topic
from ha_core.mirror_maker.handover.offsets_topic import offsets_producer as offsets_producer
from ha_core.mirror_maker.handover.offsets_topic import read_source_offsets as read_source_offsets
from ha_core.mirror_maker.handover.offsets_topic import write_source_offsets as write_source_offsets
from ha_core.mirror_maker.handover.returning import ended_copies as ended_copies
from ha_core.mirror_maker.handover.taking import HandedCopy as HandedCopy
from ha_core.mirror_maker.handover.taking import JudgedCopies as JudgedCopies
from ha_core.mirror_maker.handover.taking import begin_copies as begin_copies
from ha_core.mirror_maker.handover.taking import handed_copies as handed_copies
from ha_core.mirror_maker.handover.taking import judged_copies as judged_copies
from ha_core.mirror_maker.handover.workers import require_stopped as require_stopped
