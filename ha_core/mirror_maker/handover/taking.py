"""Continues copies of a real MirrorMaker 2 exactly where it stopped."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.plan.facts.clusters import Partition


class HandedCopy(NamedTuple):
    """A copy that MirrorMaker 2 began, and where a copier goes on.

    :ivar source_start: first source offset that is copied.
    :ivar target_end: end of the remote topic, when it was compared.
    :ivar exact: False: records from `source_start` on may be in the remote topic already, and are doubled then.
    :ivar reason: why it is not exact, or what the source has lost.
    """

    copy: CopyPartition
    source_start: int
    target_end: int
    exact: bool
    reason: str = ""


def handed_copies(
    source: Admin, target: Admin, copies: Collection[CopyPartition], offsets: Mapping[Partition, int]
) -> list[HandedCopy]:
    """Where each copy goes on. Copies that no MirrorMaker 2 began, with an empty remote topic, are left out: they
    begin at the source's start. So are copies that a copier of ours continued and MirrorMaker 2 did not touch since.

    :param offsets: partition of the source → offset of the last record that MirrorMaker 2 knows as copied.
    :raises HandoverError: a remote topic has records and no known offset, or an offset and no records.
    """
    raise NotImplementedError


def begin_copies(source: Admin, target: Admin, state: ConnectState, handed: Iterable[HandedCopy]) -> list[CopyId]:
    """Fences these copies and writes their first notes, so that `Copying` goes on there. Safe to repeat.

    :return: copies that are begun now.
    :raises HandoverError: MirrorMaker 2 runs again, or has written to a remote topic since.
    :raises TakenOverError: another process copies one of them.
    """
    raise NotImplementedError
