"""Places and removes guards of remote topics (`ha_core.flows.guards`) at the brokers of a flow's target."""

from collections.abc import Collection

from ha_core.flows.errors import FlowError
from ha_core.flows.guards import missing_guards, placed_guards
from ha_core.kafka.admin import Admin


def _not_fenced() -> None:
    """Guards need no fence: if two workers place guards, they place equal ones."""


def guard_remote_topics(target: Admin, topics: Collection[str]) -> list[str]:
    """Make brokers refuse all writers of these topics except super users.

    :returns: topics that got their guard now.
    :raises FlowError: the target has no authorizer, or a guard would refuse this account, too.
    :raises KafkaAdminError: the target does not answer, or accepts no ACLs.
    """
    rules, name = target.access_rules(), target.cluster.name
    if rules is None:
        raise FlowError(f"{name} has no authorizer, so no rule can guard topics: remove --guard-remote-topics")
    missing = missing_guards(rules, topics)
    if not missing:
        return []
    named = [guard.rule.name for guard in missing]
    if not target.bypasses_rules():
        raise FlowError(
            f"the account of this file is not a super user in {name}, so a rule that denies all users to write to "
            f"{named[0]} would also deny this account: none of {len(named)} guards is placed. Make it a super user "
            "there (super.users), or remove --guard-remote-topics"
        )
    markers, denials = zip(*missing, strict=True)
    target.add_access_rules(markers, _not_fenced)
    target.add_access_rules(denials, _not_fenced)
    target.await_access_rules(there={*markers, *denials})
    return named


def remove_remote_guards(target: Admin, topics: Collection[str] | None = None) -> list[str]:
    """Remove the guards of these topics, so that the target's other rules decide again which users may write.

    :param topics: None: all topics that have a guard.
    :returns: topics that had a guard.
    :raises KafkaAdminError: the target does not answer, or accepts no change of ACLs.
    """
    guards = placed_guards(target.access_rules() or (), topics)
    if guards:
        markers, denials = zip(*guards, strict=True)
        target.remove_access_rules(denials, _not_fenced)
        target.await_access_rules(gone=denials)
        target.remove_access_rules(markers, _not_fenced)
        target.await_access_rules(gone=markers)
    return [guard.rule.name for guard in guards]
