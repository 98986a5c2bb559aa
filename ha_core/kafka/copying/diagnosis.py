"""The reason why a source refuses an offset or its leader epoch, and what the copier does about it. No I/O."""

from typing import NamedTuple

from ha_core.kafka.facts import LogEnds

_ODD_TRIES = 5


class Stops(NamedTuple):
    """Only an operator can say how to go on."""

    reason: str


class PassesOvertaken(NamedTuple):
    """The copier goes on at the source's log start, and counts the offsets below it."""

    start: int
    reason: str


class LooksAgain(NamedTuple):
    reason: str


Diagnosis = Stops | PassesOvertaken | LooksAgain


class RefusedOffset(NamedTuple):
    """
    :ivar where: the source's partition and cluster, for people.
    :ivar at: the offset that was to be copied next.
    :ivar leader_epoch: of the last batch below it; -1: unknown.
    :ivar diverging_end: end of the source's records of that epoch, if it lies below `at`; -1: it does not.
    :ivar tries: consecutive refusals.
    :ivar anew: see `CopyPartition.anew`.
    """

    where: str
    at: int
    leader_epoch: int
    diverging_end: int
    tries: int
    anew: str


def diagnose(refused: RefusedOffset, ends: LogEnds, passes_overtaken: bool) -> Diagnosis:
    """
    :param ends: of the source, read after the refusal.
    :param passes_overtaken: see `Copying`.
    """
    where, at, leader_epoch, diverging_end, tries, anew = refused
    if at < ends.start:
        why = (
            f"retention has overtaken the copy: {where} begins at {ends.start}, and offset {at} would be copied next. "
            f"{ends.start - at} offsets are lost to it"
        )
        if passes_overtaken:
            return PassesOvertaken(ends.start, why)
        return Stops(f"{why}. If that may be, {anew}; give retention more time")
    if diverging_end >= 0 or at > ends.log_end:
        end = diverging_end if diverging_end >= 0 else ends.log_end
        return Stops(
            f"the source was truncated: {where} ended at {end}, and was copied up to {at}, as where an unclean leader "
            f"was elected. The copy holds records that the source has lost: keep them by moving the clients to the "
            f"copy, or {anew}"
        )
    if tries < _ODD_TRIES:
        return LooksAgain(f"{where} does not answer for offset {at}, which it has")
    return Stops(
        f"{where} has offset {at}, but not the leader epoch {leader_epoch} in which the record before it was written: "
        f"it was restored from elsewhere. To copy what it has now, {anew}"
    )
