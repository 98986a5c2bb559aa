"""Writers let in where a topic goes: no rule that kept them out of a copy is left there when they come.

A client takes a refusal for want of rights for the end, so it is done before the cut, and looked for once more behind
it: whoever stood still may have placed a rule since. Of what is taken back a sync of the mirrors places it anew.
"""

from __future__ import annotations

from typing import Any

from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, NotReadyError
from ha_core.operations.errors import StepFailedError
from ha_core.operations.journal import Journal
from ha_core.operations.syncing.rights import let_writers_in
from ha_core.plan.copy_guard import marked
from ha_core.plan.verdict import listed

RULES_S = 5.0
"""Of each request; a forced move waits for it while its clients have nowhere to write."""


def open_to_writers(journal: Journal[Any], must: bool) -> None:
    """Safe to repeat. A target that refuses to tell its rules has none of ours: they could not have been placed. One
    that does not answer may have some.

    :param must: a guard that stays, or may stay, is a failure; else it is said.
    :raises StepFailedError: the target does not take it away, or does not answer.
    """
    target, topics, environment = journal.target, journal.moves.topics, journal.environment
    try:
        rules = target.access_rules(RULES_S) if topics else None
    except KafkaAdminError as error:
        text = f"Whether rules keep writers out of {target.cluster.name} is not known: {error}"
        if must and isinstance(error, ClusterUnreachableError | NotReadyError):
            raise StepFailedError(f"{text} Try again when it answers.") from error
        environment.say(text)
        return
    left = sorted(marked(rules or ()).intersection(topics))
    if not left:
        return
    try:
        with journal.step("writers") as seen:
            seen["topics"] = let_writers_in(target, rules, left, journal.still_ours, RULES_S)
    except KafkaAdminError as error:
        text = (
            f"Rules of {target.cluster.name} keep all writers out of {listed(left)}, and stay: {error} Take them away "
            "there (`kafka-acls --remove --deny-principal User:* --operation WRITE --topic …`)."
        )
        if must:
            raise StepFailedError(f"{text} Then try again.") from error
        environment.say(text)
