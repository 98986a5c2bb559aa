"""Places and removes guards of remote topics (`ha_core.flows.guards`) at the brokers of a flow's target."""

from collections.abc import Collection

from ha_core.flows.errors import FlowError
from ha_core.flows.guards import missing_guards, placed_guards
from ha_core.kafka.admin import Admin


def _not_fenced() -> None:
    """Guards need no fence: two workers that place them place the same ones."""


def guard_remote_topics(target: Admin, topics: Collection[str]) -> list[str]:
    """Lets brokers refuse all writers of these topics but super users. Returns the topics that got their guard now.

    :raises FlowError: the target has no authorizer, or would refuse this account as well.
    :raises KafkaAdminError: it does not answer, or accepts no ACLs.
    """
    rules, name = target.access_rules(), target.cluster.name
    if rules is None:
        raise FlowError(f"{name} has no authorizer, so no rule can guard topics: leave --guard-remote-topics out")
    missing = missing_guards(rules, topics)
    if not missing:
        return []
    named = [guard.rule.name for guard in missing]
    if not target.bypasses_rules():
        raise FlowError(
            f"the account of this file is no super user in {name}, so a rule that denies everybody to write to "
            f"{named[0]} would deny it, too: none of {len(named)} guards is placed. Make it a super user there "
            "(super.users), or leave --guard-remote-topics out"
        )
    markers, denials = zip(*missing, strict=True)
    target.add_access_rules(markers, _not_fenced)
    target.add_access_rules(denials, _not_fenced)
    target.await_access_rules(there={*markers, *denials})
    return named


def remove_remote_guards(target: Admin, topics: Collection[str] | None = None) -> list[str]:
    """Lets the target's rules decide again who writes to these topics (None: to all with a guard). Returns those that
    had one.

    :raises KafkaAdminError: it does not answer, or accepts no change of ACLs.
    """
    guards = placed_guards(target.access_rules() or (), topics)
    if guards:
        markers, denials = zip(*guards, strict=True)
        target.remove_access_rules(denials, _not_fenced)
        target.await_access_rules(gone=denials)
        target.remove_access_rules(markers, _not_fenced)
        target.await_access_rules(gone=markers)
    return [guard.rule.name for guard in guards]
