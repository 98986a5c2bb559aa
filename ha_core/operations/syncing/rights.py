"""Access rules of mirrored topics, where clusters have an authoriser: who may read, and who may write later.

A copy gets the rules of its source to read it, and a guard (`ha_core.plan.copy_guard`) under which nobody writes to it.
Under a guard the rules to write come along as well: they mean nothing until it is taken away, and a source that is dead
by then could not tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.operations.syncing.pair import OvertakenError, Pair, Synced
from ha_core.plan.copy_guard import EVERYBODY, foreign, guard, guards, marked, others, unguarded
from ha_core.plan.facts import AccessRule
from ha_core.plan.syncing import rules_due, writers
from ha_core.plan.verdict import listed
from ha_core.store.errors import StoreError
from ha_core.store.store import Store

_OPERATIONS = {3: "READ", 4: "WRITE", 8: "DESCRIBE", 10: "DESCRIBE_CONFIGS"}
Rules = frozenset[AccessRule] | None


def sync_rights(pair: Pair, topics: Collection[str]) -> None:
    """:raises KafkaAdminError: a cluster cannot be asked, or takes no rules.
    :raises OvertakenError: mirrors have ended meanwhile.
    """
    here, there = pair.source.access_rules(), pair.target.access_rules()
    for cluster, rules in ((pair.source.cluster.name, here), (pair.target.cluster.name, there)):
        if rules is None:
            pair.tell("rights", f"cluster {cluster}", "it has no authoriser: there are no access rules to bring over")
    for admin, rules in ((pair.source, here), (pair.target, there)):
        _take_left_behind(pair, admin, rules)
    if there is None:
        return
    guarded = _guard(pair, there, topics)
    if here is not None:
        _bring(pair, here, there, topics, guarded)


def sweep(store: Store, admin: Admin, at: str, dry_run: bool = False) -> Synced:
    """Takes guards away where a cluster has no mirrors any more, whose pairs nobody looks at.

    :raises KafkaAdminError: it cannot be asked.
    """
    pair = Pair(store, admin, admin, at, dry_run=dry_run)
    try:
        _take_left_behind(pair, admin, admin.access_rules())
    except OvertakenError as error:
        pair.tell("rights", f"cluster {admin.cluster.name}", f"{error}: the next look goes on")
    return pair.synced("topics", 0)


def refuse_writers(
    target: Admin, topics: Collection[str], still_ours: Callable[[], None], still_copies: Callable[[], None]
) -> None:
    """Let nobody write to these copies but a super user, which the account has to be. Safe to repeat.

    The marker first: a rule that nobody knows for ours would stay for ever. So would one that comes when its marker has
    been taken away, from who stood still since he was told that it is his to place. So it is asked once more behind
    both, and who has been overtaken takes back what he has placed.

    :param still_copies: as `still_ours`, of this moment.
    """
    markers, denials = zip(*(guard(topic) for topic in topics), strict=True)
    target.add_access_rules(markers, still_ours)
    try:
        target.add_access_rules(denials, still_ours)
        still_copies()
    except (OvertakenError, StoreError):
        for placed in (denials, markers):
            target.remove_access_rules(placed, lambda: None)
        raise
    target.await_access_rules(there=guards(topics))


def let_writers_in(
    target: Admin, rules: Rules, topics: Collection[str], still_ours: Callable[[], None], timeout_s: float | None = None
) -> list[str]:
    """Take the guards of these topics away, and return which had one. Until brokers show that they are gone.

    :param rules: as the target has them.
    """
    left = sorted(marked(rules or ()).intersection(topics))
    if left:
        denials, markers = [guard(topic)[1] for topic in left], [guard(topic)[0] for topic in left]
        target.remove_access_rules(denials, still_ours, timeout_s)
        target.await_access_rules(gone=denials, timeout_s=timeout_s)
        target.remove_access_rules(markers, still_ours, timeout_s)
    return left


def _take_left_behind(pair: Pair, admin: Admin, rules: Rules) -> None:
    """Guards where no mirror is any more: they would lock all writers out. Who placed one too late has died, or stood
    still between his question and his request."""
    cluster = admin.cluster.name
    left = [topic for topic in sorted(marked(rules or ())) if pair.is_free(topic, cluster)]
    if left and not pair.dry_run:
        let_writers_in(admin, rules, left, pair.still_free(left, cluster))
    for topic in left:
        pair.changed("rights", f"topic {topic}", f"it is no copy in {cluster} any more: who may write there does")


def _guard(pair: Pair, there: frozenset[AccessRule], topics: Collection[str]) -> list[str]:
    """The copies to which nobody may write now."""
    target, name = pair.target, pair.target.cluster.name
    elses = foreign(there, topics)
    for topic in elses:
        text = (
            f"somebody else's rule lets nobody write to it in {name} ({EVERYBODY}): it stays, and would keep writers "
            "out behind a switch. Delete it there"
        )
        pair.tell("rights", f"topic {topic}", text)
    missing = [topic for topic in unguarded(there, topics) if topic not in elses]
    guarded = [topic for topic in topics if topic not in missing and topic not in elses]
    if not missing:
        return guarded
    if not pair.dry_run:
        try:
            if not target.bypasses_rules():
                named = listed(sorted(writers(there, missing)))
                text = (
                    f"the account that copies is no super user there, so a rule that keeps writers out of copies "
                    f"({listed(missing)}) would keep it out as well. Gateways refuse them; brokers do not refuse "
                    f"{named or 'whom `allow.everyone.if.no.acl.found` lets in'}. Make the account a super user "
                    "(super.users), or let nobody else write there"
                )
                pair.tell("rights", f"cluster {name}", text)
                return guarded
            refuse_writers(target, missing, pair.topics_unchanged(missing), pair.topics_unchanged(missing, fresh_s=0))
        except KafkaAdminError as error:
            pair.tell("rights", f"cluster {name}", f"no rule keeps writers out of copies there: {error}")
            return guarded
    for topic in missing:
        pair.changed("rights", f"topic {topic}", f"nobody may write to it in {name} as long as it is a copy")
    return [*guarded, *missing]


def _bring(
    pair: Pair,
    here: frozenset[AccessRule],
    there: frozenset[AccessRule],
    topics: Collection[str],
    guarded: Collection[str],
) -> None:
    due = rules_due(others(here), others(there), topics, guarded)
    if due.missing and not pair.dry_run:
        pair.target.add_access_rules(due.missing, pair.topics_unchanged({rule.name for rule in due.missing}))
        pair.target.await_access_rules(there=due.missing)
    for rule in sorted(due.missing):
        verb = "may" if rule.allows else "may not"
        pair.changed("rights", f"topic {rule.name}", f"{rule.principal} {verb} {_OPERATIONS[rule.operation]}")
    for rule in sorted(due.alone):
        verb, gone = ("may", "revoked") if rule.allows else ("may not", "lifted")
        text = (
            f"{rule.principal} {verb} {_OPERATIONS[rule.operation]} it in {pair.target.cluster.name} only. If that was "
            f"{gone} in the source, delete the rule there too."
        )
        pair.tell("rights", f"topic {rule.name}", text)
