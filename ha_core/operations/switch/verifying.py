"""After the cut: every gateway serves it, and nothing was appended to the origin since its ends were read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.operations.errors import NotServedError
from ha_core.operations.gateways import name_them, serves, wait_for_all
from ha_core.operations.journal import Journal
from ha_core.operations.revisions import bounded
from ha_core.operations.sides import admin_of, asked, in_origin
from ha_core.plan.facts import Partition

SERVED_TIMEOUT_S = 30.0
NAMED = 5
RETURN_S, RETURN_PAUSE_S = 15.0, 0.5
"""How long a gateway that has vanished is waited for. One that comes back later finds that its lease is another one: it
does not acknowledge what it goes on with."""


def verify(journal: Journal) -> None:
    """:raises NotServedError: a gateway does not serve the cut, or the origin has grown."""
    environment = journal.environment
    if not journal.operation.revision:
        # Killed between the cut and this note of it: the newest revision contains the cut.
        journal.update(revision=environment.store.load().revision)
    revision = journal.operation.revision
    with journal.step("verify") as seen:
        behind = wait_for_all(environment, serves(revision), SERVED_TIMEOUT_S)
        if behind:
            raise NotServedError(
                f"The cut is published in revision {revision}, but not every gateway serves it: {name_them(behind)}. "
                "They refuse produce when their lease ends. Look at these gateways, restart them if need be."
            )
        _take_leave(journal)
        ends = journal.operation.move.origin_ends
        if not ends:
            seen["origin"] = "not asked"
            return
        try:
            _require_unmoved(journal, ends, seen)
        except KafkaAdminError as error:
            seen["origin"] = f"not asked: {error}"


def _require_unmoved(journal: Journal, ends: Mapping[str, Mapping[int, int]], seen: dict[str, Any]) -> None:
    """Looks once, and once more where a gateway has vanished: one that was stopped may have come back meanwhile, and
    what of a request it had in its buffers is sent then, whatever it finds out a moment later."""
    request, _ = asked(journal.operation)
    beyond = _beyond(journal, ends)
    gone = _gone(journal)
    if gone:
        seen["gone"] = list(gone)
        _await_return(journal, gone)
        beyond = _beyond(journal, ends)
    if not beyond:
        seen["origin"] = "unchanged"
        return
    seen.update(bounded("beyond", beyond))
    named = ", ".join(
        f"{topic}-{part} from {low} to {high}" for (topic, part), (low, high) in [*beyond.items()][:NAMED]
    )
    more = f" and {len(beyond) - NAMED} more partitions" if len(beyond) > NAMED else ""
    who = (
        f"{', '.join(gone)} vanished during the move and may have sent the rest of requests that it had begun: nobody "
        "was told that these were written, and who sent them sends them again, to the new place"
        if gone
        else "Somebody writes there without passing through the gateways"
    )
    raise NotServedError(
        f"The cut is published in revision {journal.operation.revision}, but {request.origin} has grown since: "
        f"{named}{more}. {who}. Clients do not see these records."
    )


def _beyond(journal: Journal, ends: Mapping[str, Mapping[int, int]]) -> dict[Partition, tuple[int, int]]:
    """Partition → what lies beyond the cut, in the origin's own offsets."""
    request, _ = asked(journal.operation)
    known = {(topic, partition): end for topic, found in ends.items() for partition, end in found.items()}
    now = admin_of(journal.environment, request.origin).ends(known)
    return {key: (end, now[key].log_end) for key, end in sorted(known.items()) if now[key].log_end != end}


def _gone(journal: Journal) -> tuple[str, ...]:
    """Gateways that lived when the operation prepared itself, and have no node now."""
    live = {gateway.id for gateway in journal.environment.store.gateways()}
    return tuple(one for one in journal.operation.move.gateways if one not in live)


def _await_return(journal: Journal, gone: Collection[str]) -> None:
    """Until all of them follow the cut, or the patience is over: most have died, and never will."""
    environment = journal.environment
    deadline = environment.monotonic() + RETURN_S
    follows = serves(journal.operation.revision)
    environment.say(f"{', '.join(gone)} vanished during the move: looking at the origin again in {RETURN_S:g} s")
    while environment.monotonic() < deadline:
        back = {gateway.id for gateway in environment.store.gateways() if follows(gateway)}
        environment.sleep(RETURN_PAUSE_S)  # what it sent when it woke is in the log by then
        if back.issuperset(gone):
            return


def _take_leave(journal: Journal) -> None:
    """Members that were carried over are gone from the origin, which does not know: it would wait for their heartbeats
    until their session ends, and a move back with it."""
    environment, operation = journal.environment, journal.operation
    request, _ = asked(operation)
    if request.mode == "forced":
        return
    for name, adopted in operation.move.adopted.items():
        try:
            admin_of(environment, request.origin).leave(in_origin(name, adopted))
        except KafkaAdminError as error:
            environment.say(f"members of group {name} stay in {request.origin} until their session ends: {error}")
