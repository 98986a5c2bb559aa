"""ACLs of mirrored topics, in clusters with an authoriser.

A copy gets its source's ACLs for reading, and a guard (`ha_core.plan.mirror.copy_guard`) that denies writing to all but
its copier. Under a guard the ACLs for writing are copied as well: they have no effect until it is removed, and a source
that is dead by then could not list them.
"""

from collections.abc import Callable, Collection, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.operations.copies.syncing.pair import MirrorPair, Synced, SyncOvertakenError
from ha_core.operations.copies.syncing.revoked_rights import OPERATIONS, forget_ended, remove_revoked
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.facts.verdict import listed
from ha_core.plan.mirror.copy_guard import (
    EVERYBODY,
    Guard,
    Writers,
    foreign,
    guard,
    guards,
    marked,
    others,
    placed,
    sparing,
    unguarded,
    writers_of,
)
from ha_core.plan.mirror.syncing import covers, rules_due, writers
from ha_core.store.errors import StoreError
from ha_core.store.store import Store

Rules = frozenset[TopicAcl] | None


def sync_rights(pair: MirrorPair, topics: Collection[str]) -> None:
    """:raises KafkaAdminError: a cluster cannot be asked, or accepts no ACLs.
    :raises SyncOvertakenError: mirrors have ended meanwhile.
    """
    forget_ended(pair)
    here, there = _without_left_behind(pair)
    for cluster, rules in ((pair.source.cluster.name, here), (pair.target.cluster.name, there)):
        if rules is None:
            pair.add_finding("rights", f"cluster {cluster}", "it has no authoriser: there are no access rules to sync")
    if there is None:
        return
    guarded = _guard(pair, here or frozenset(), there, topics)
    if here is not None:
        _bring(pair, here, there, topics, guarded)


def sweep(store: Store, admin: Admin, at: str, dry_run: bool = False) -> Synced:
    """Remove guards in clusters without mirrors, whose pairs no pass looks at. The result is empty if there is none.

    :raises KafkaAdminError: it cannot be asked.
    """
    pair = MirrorPair(store, admin, admin, at, dry_run=dry_run)
    forget_ended(pair)
    try:
        rules = admin.access_rules()
        _take_left_behind(pair, admin, rules)
        for topic in filter(pair.is_worked_on, sorted(marked(rules or ()))):
            text = (
                f"an operation works on it: the next look decides whether it may be written to in {admin.cluster.name}"
            )
            pair.add_finding("rights", f"topic {topic}", text)
    except SyncOvertakenError as error:
        pair.add_finding("rights", f"cluster {admin.cluster.name}", f"{error}: the next look continues")
    return pair.synced("topics", 0)


def place_guards(
    target: Admin, wanted: Collection[Guard], still_ours: Callable[[], None], still_copies: Callable[[], None]
) -> None:
    """Place these guards, none of which may concern the account itself. Safe to repeat.

    The marker first: a rule without it would not be recognised as a guard, and would stay. So would a rule that is
    placed after its marker was removed, by a process that stalled since it was allowed to place it. So the state is
    checked again after both, and an overtaken process removes the rules that it has placed.

    :param still_copies: as `still_ours`, with the state of this moment.
    """
    markers, denials = zip(*wanted, strict=True)
    target.add_access_rules(markers, still_ours)
    try:
        target.add_access_rules(denials, still_ours)
        still_copies()
    except (SyncOvertakenError, StoreError):
        for rules in (denials, markers):
            target.remove_access_rules(rules, lambda: None)
        raise
    target.await_access_rules(there={*markers, *denials})


def remove_guards(
    target: Admin, rules: Rules, topics: Collection[str], still_ours: Callable[[], None], timeout_s: float | None = None
) -> list[str]:
    """Remove the guards of these topics, wait until brokers show that, and return the topics that had one.

    :param rules: the target's ACLs.
    """
    left = placed(rules or (), topics)
    if left:
        denials, markers = [one.rule for one in left], [one.marker for one in left]
        target.remove_access_rules(denials, still_ours, timeout_s)
        target.await_access_rules(gone=denials, timeout_s=timeout_s)
        target.remove_access_rules(markers, still_ours, timeout_s)
    return sorted({one.rule.name for one in left})


def _without_left_behind(pair: MirrorPair) -> tuple[Rules, Rules]:
    """The ACLs of both clusters, without leftover guards. A dead source does not prevent their removal in the target,
    nor the other way round.

    :raises KafkaAdminError: one of them cannot be asked.
    """
    topic_acls: list[Rules] = []
    failed: KafkaAdminError | None = None
    for admin in (pair.target, pair.source):
        pair.restart_age()
        try:
            rules = admin.access_rules()
            _take_left_behind(pair, admin, rules)
            topic_acls.append(rules)
        except KafkaAdminError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    there, here = topic_acls
    return here, there


def _take_left_behind(pair: MirrorPair, admin: Admin, rules: Rules) -> None:
    """Remove guards of topics without a mirror, which would deny all writers. A process that placed one too late has
    died, or stalled between its check and its request."""
    cluster = admin.cluster.name
    left = [topic for topic in sorted(marked(rules or ())) if pair.is_free(topic, cluster)]
    if left and not pair.dry_run:
        remove_guards(admin, rules, left, pair.still_free(left, cluster))
    for topic in left:
        pair.changed("rights", f"topic {topic}", f"it is no copy in {cluster} any more: its guard is removed")


def _guard(
    pair: MirrorPair, here: frozenset[TopicAcl], there: frozenset[TopicAcl], topics: Collection[str]
) -> list[str]:
    """The copies that only their copier may write to now."""
    target, name = pair.target, pair.target.cluster.name
    elses = foreign(there, topics)
    for topic in elses:
        text = (
            f"a rule that is no guard denies writing to it in {name} ({EVERYBODY}): it stays, and would keep writers "
            "out after a switch. Delete it there"
        )
        pair.add_finding("rights", f"topic {topic}", text)
    missing = [topic for topic in unguarded(there, topics) if topic not in elses]
    guarded = [topic for topic in topics if topic not in missing and topic not in elses]
    if not pair.copies:  # a super user must not lock out the account that the job has spared
        spared = {one.rule.name for one in placed(there, missing) if one.rule.principal != EVERYBODY}
        missing = [topic for topic in missing if topic not in spared]
        guarded += [topic for topic in sorted(spared) if writers_of(here, there, topic).one_writer]
    try:
        if not pair.dry_run and (missing or (guarded and pair.copies)):
            if not target.bypasses_rules():
                return _guard_by_name(pair, here, there, guarded, missing)
            if missing:
                wanted, unchanged = [guard(topic) for topic in missing], pair.topics_unchanged(missing)
                place_guards(target, wanted, unchanged, pair.topics_unchanged(missing, fresh_s=0))
    except KafkaAdminError as error:
        pair.add_finding("rights", f"cluster {name}", f"no guard keeps writers out of copies there: {error}")
        return []
    for topic in missing:
        pair.changed("rights", f"topic {topic}", f"only its copier may write to it in {name} as long as it is a copy")
    return [*guarded, *missing]


def _guard_by_name(
    pair: MirrorPair,
    here: frozenset[TopicAcl],
    there: frozenset[TopicAcl],
    guarded: Collection[str],
    missing: Collection[str],
) -> list[str]:
    """As `_guard`, for an ordinary account. If it is the one that copies, and its security profile names its principal,
    all other principals with write access are denied by name. Any other process does not know which principal to
    spare, and changes nothing.

    :param guarded: topics with a guard against all principals.
    :raises KafkaAdminError: the target accepts no ACLs.
    """
    target, name = pair.target, pair.target.cluster.name
    if guarded and pair.copies:
        remove_guards(target, guards(guarded), guarded, pair.topics_unchanged(guarded))
        text = (
            f"a rule there denied all principals in {listed(sorted(guarded))}, the account that copies as well: some "
            "other process has a super user's account. Now others are denied by name. Use one account, or super users"
        )
        pair.add_finding("rights", f"cluster {name}", text)
        guarded, missing = (), [*guarded, *missing]
    found = {topic: writers_of(here, there, topic) for topic in missing}
    closed = {topic for topic, one in found.items() if one.one_writer}
    if pair.copies:
        closed &= target.writable(closed)  # guards of an earlier account may deny the present one
        closed |= _spare(pair, {topic: one for topic, one in found.items() if topic not in closed})
        _let_in(pair, set(missing) - closed)
    if open_ := [topic for topic in missing if topic not in closed]:
        named = listed(sorted(writers(there, open_)))
        text = (
            f"the account is no super user there, so a rule that denies all principals in copies ({listed(open_)}) "
            "would deny the one that copies as well. Gateways refuse writers; brokers do not refuse "
            f"{named or 'principals that `allow.everyone.if.no.acl.found` lets in'}. Make the account a super user "
            "(super.users); or allow it to write there by a rule of its own, and no principal by a rule for all, and "
            f"name it in the job's security profile {target.cluster.security} (`principal: User:NAME`): then the job "
            "that copies denies others by name"
        )
        pair.add_finding("rights", f"cluster {name}", text)
    return [*guarded, *sorted(closed)]


def _let_in(pair: MirrorPair, topics: Collection[str]) -> None:
    """Removes guards of an account that copied before, if the present one may not write under them. Its profile may
    not name it: then no rule tells whom they deny."""
    target = pair.target
    locked_out = sorted(set(topics) - target.writable(topics))
    if not locked_out:
        return
    let_in = remove_guards(target, target.access_rules(), locked_out, pair.topics_unchanged(locked_out))
    if let_in:
        text = f"guards of another account there kept the account that copies out of {listed(let_in)}. They are removed"
        pair.add_finding("rights", f"cluster {target.cluster.name}", text)


def _spare(pair: MirrorPair, found: Mapping[str, Writers]) -> set[str]:
    """The topics that only the account may write to now, by a guard for each other principal. A guard against the
    account itself is removed: it is of another account, which copied before.

    No request tells whether the declared principal is the account's. If the account may not write under these guards,
    they are removed at once: a wrong name costs the guard, never the copy.
    """
    target, name, copier = pair.target, pair.target.cluster.name, pair.target.security.principal
    spared = {topic: one for topic, one in found.items() if copier in one.in_target and not one.open_to}
    wanted = [one for topic in sorted(spared) for one in sparing(topic, spared[topic], copier)]
    if wanted:
        unchanged = pair.topics_unchanged(spared)
        place_guards(target, wanted, unchanged, pair.topics_unchanged(spared, fresh_s=0))
    if own := sorted(topic for topic, one in spared.items() if copier in one.denied):
        denials = frozenset(rule for topic in own for rule in guard(topic, copier))
        remove_guards(target, denials, own, pair.topics_unchanged(own))
        text = (
            f"guards of another account there kept the account that copies out of {listed(own)}: it was denied to "
            f"write by name. Now {copier} is spared"
        )
        pair.add_finding("rights", f"cluster {name}", text)
    if locked_out := sorted(spared.keys() - target.writable(spared)):
        remove_guards(target, target.access_rules(), locked_out, pair.topics_unchanged(locked_out))
        text = (
            f"the account that copies may not write to {listed(locked_out)} under guards that spare {copier}, so they "
            f"are removed. Correct `principal` in the job's security profile {target.cluster.security}, or the rules "
            "of the account there"
        )
        pair.add_finding("rights", f"cluster {name}", text)
    guarded = spared.keys() - locked_out
    for one in wanted:
        if one.rule.name in guarded:
            text = f"{one.rule.principal} may not write to it in {name} as long as it is a copy"
            pair.changed("rights", f"topic {one.rule.name}", text)
    return guarded


def _bring(
    pair: MirrorPair,
    here: frozenset[TopicAcl],
    there: frozenset[TopicAcl],
    topics: Collection[str],
    guarded: Collection[str],
) -> None:
    due = rules_due(others(here), others(there), topics, guarded)
    missing = due.missing - _locking_out(pair, there, due.missing)
    if missing and not pair.dry_run:
        _keep_denied(pair, there, missing)
        pair.target.add_access_rules(missing, pair.topics_unchanged({rule.name for rule in missing}))
        pair.target.await_access_rules(there=missing)
    for rule in sorted(missing):
        verb = "may" if rule.allows else "may not"
        pair.changed("rights", f"topic {rule.name}", f"{rule.principal} {verb} {OPERATIONS[rule.operation]}")
    revoked = remove_revoked(pair, others(here), others(there) | missing, missing, due.alone)
    for rule in sorted(due.alone - revoked):
        verb, gone = ("may", "revoked") if rule.allows else ("may not", "lifted")
        text = (
            f"{rule.principal} {verb} {OPERATIONS[rule.operation]} it in {pair.target.cluster.name} only. If that was "
            f"{gone} in the source, delete the rule there too."
        )
        pair.add_finding("rights", f"topic {rule.name}", text)


def _locking_out(pair: MirrorPair, there: frozenset[TopicAcl], missing: frozenset[TopicAcl]) -> frozenset[TopicAcl]:
    """ACLs that would lock out an ordinary account that copies: it writes to a topic without any ACL because
    `allow.everyone.if.no.acl.found` allows all, which ends with the first one."""
    bare = {rule.name for rule in missing if not any(covers(topic_acl, rule.name) for topic_acl in there)}
    if not bare or pair.dry_run or pair.target.bypasses_rules():
        return frozenset()
    text = (
        f"no rule of the target lets the account that copies write to {listed(sorted(bare))}, and it is no super user: "
        "the first rule there would deny it, so none is synced. Give it a rule for them (WRITE and READ), or "
        "make it a super user (super.users)"
    )
    pair.add_finding("rights", f"cluster {pair.target.cluster.name}", text)
    return frozenset(rule for rule in missing if rule.name in bare)


def _keep_denied(pair: MirrorPair, there: frozenset[TopicAcl], missing: frozenset[TopicAcl]) -> None:
    """A principal that the source denies by now stays denied when the guard goes that denies it: it is no guard
    then."""
    markers = [one.marker for one in placed(there) if one.rule in missing]
    if markers:
        unchanged = pair.topics_unchanged({rule.name for rule in markers})
        pair.target.remove_access_rules(markers, unchanged)
