"""Let writers into the target: remove the guard ACLs that kept them out of its copies.

A client gives up on an authorization error, so the guards go before the cut. They are looked for again after it: a
stalled copier may have placed one since. If the move is undone, the next sync of the mirrors places them again."""

from collections.abc import Iterable
from typing import Any

from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, NotReadyError
from ha_core.model import Mirror
from ha_core.operations.copies.syncing.rights import remove_guards
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.errors import RefusedError, StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import listed
from ha_core.plan.mirror.copy_guard import marked

RULES_S = 5.0
"""For each request. Clients of a forced move have nowhere to write meanwhile."""
BEHIND_CUT_S = 30.0
"""For each request after the cut: clients are refused in the target until it is done, and brokers may be slow then."""


def open_to_writers(journal: Journal[Any], must: bool, timeout_s: float = RULES_S) -> None:
    """Safe to repeat. A target that refuses to list its ACLs has no guard: it could not have been placed. A target that
    does not answer may have some.

    :param must: a guard that stays, or may stay, is a failure; else it is reported.
    :raises StepFailedError: the target does not remove it, or does not answer.
    """
    target, topics, environment = journal.target, journal.moves.topics, journal.environment
    try:
        rules = target.access_rules(timeout_s) if topics else None
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
            seen["topics"] = remove_guards(target, rules, left, journal.still_ours, timeout_s)
    except KafkaAdminError as error:
        text = (
            f"Rules of {target.cluster.name} keep all writers out of {listed(left)}, and stay: {error} Take them away "
            "there (`kafka-acls --remove --deny-principal User:* --operation WRITE --topic …`)."
        )
        if must:
            raise StepFailedError(f"{text} Then try again.") from error
        environment.say(text)


def open_ended_copies(journal: Journal[Any], mirrors: Iterable[Mirror]) -> None:
    """Remove the guards of copies whose mirror has ended, so that no ACL of ours refuses the next writer. Safe to
    repeat. A cluster that does not answer is reported; the copy job removes its guards later."""
    for name, topics in grouped((mirror.target, mirror.topic) for mirror in mirrors).items():
        try:
            target = admin_of(journal.environment, name)
            remove_guards(target, target.access_rules(RULES_S), topics, journal.still_ours, RULES_S)
        except (KafkaAdminError, RefusedError) as error:
            journal.environment.say(
                f"rules of {name} that let nobody write to {listed(topics)} may be left: {error} The job that copies "
                "takes them away when it answers; at once does `switchyard mirror sync`."
            )
