"""After the cut: every gateway serves it, and nothing was appended to the origin since its ends were read."""

from __future__ import annotations

from ha_core.kafka.errors import KafkaAdminError
from ha_core.moves.errors import NotServedError
from ha_core.moves.gateways import name_them, serves, wait_for_all
from ha_core.moves.journal import Journal
from ha_core.moves.sides import admin_of, adopted_of, asked, in_origin

SERVED_TIMEOUT_S = 30.0
NAMED = 5


def verify(journal: Journal) -> None:
    """:raises NotServedError: a gateway does not serve the cut, or the origin has grown."""
    environment = journal.environment
    request, _ = asked(journal.operation)
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
        ends: dict[str, dict[str, int]] = journal.operation.evidence.get("origin_ends", {})
        partitions = [(topic, int(partition)) for topic, known in ends.items() for partition in known]
        if not partitions:
            seen["origin"] = "not asked"
            return
        try:
            now = admin_of(environment, request.origin).ends(partitions)
        except KafkaAdminError as error:
            seen["origin"] = f"not asked: {error}"
            return
        grown = [key for key in partitions if now[key].log_end != ends[key[0]][str(key[1])]]
        if grown:
            named = ", ".join(
                f"{topic}-{part} from {ends[topic][str(part)]} to {now[topic, part].log_end}"
                for topic, part in grown[:NAMED]
            )
            raise NotServedError(
                f"The cut is published in revision {revision}, but {request.origin} has grown since: {named}. Somebody "
                "writes there without passing through the gateways; clients do not see these records."
            )
        seen["origin"] = "unchanged"


def _take_leave(journal: Journal) -> None:
    """Members that were carried over are gone from the origin, which does not know: it would wait for their heartbeats
    until their session ends, and a move back with it."""
    environment, operation = journal.environment, journal.operation
    request, _ = asked(operation)
    if request.mode == "forced":
        return
    for name, adopted in adopted_of(operation).items():
        try:
            admin_of(environment, request.origin).leave(in_origin(name, adopted))
        except KafkaAdminError as error:
            environment.say(f"members of group {name} stay in {request.origin} until their session ends: {error}")
