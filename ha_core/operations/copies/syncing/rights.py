"""Access rules of mirrored topics, where clusters have an authoriser: who may read, and who may write later.

A copy gets the rules of its source to read it, and a guard (`ha_core.plan.mirror.copy_guard`) under which nobody
writes to it
but its copier. Under a guard the rules to write come along as well: they mean nothing until it is taken away, and a
source that is dead by then could not tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.operations.copies.syncing.pair import MirrorPair, Synced, SyncOvertakenError
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

_OPERATIONS = {3: "READ", 4: "WRITE", 8: "DESCRIBE", 10: "DESCRIBE_CONFIGS"}
Rules = frozenset[TopicAcl] | None


def sync_rights(pair: MirrorPair, topics: Collection[str]) -> None:
    """:raises KafkaAdminError: a cluster cannot be asked, or takes no rules.
    :raises OvertakenError: mirrors have ended meanwhile.
    """
    here, there = _without_left_behind(pair)
    for cluster, rules in ((pair.source.cluster.name, here), (pair.target.cluster.name, there)):
        if rules is None:
            pair.tell("rights", f"cluster {cluster}", "it has no authoriser: there are no access rules to bring over")
    if there is None:
        return
    guarded = _guard(pair, here or frozenset(), there, topics)
    if here is not None:
        _bring(pair, here, there, topics, guarded)


def sweep(store: Store, admin: Admin, at: str, dry_run: bool = False) -> Synced:
    """Takes guards away where a cluster has no mirrors any more, whose pairs nobody looks at. Nothing found, and
    nothing changed: there is none.

    :raises KafkaAdminError: it cannot be asked.
    """
    pair = MirrorPair(store, admin, admin, at, dry_run=dry_run)
    try:
        rules = admin.access_rules()
        _take_left_behind(pair, admin, rules)
        for topic in filter(pair.is_worked_on, sorted(marked(rules or ()))):
            text = f"an operation works on it: whether it may be written to in {admin.cluster.name} the next look says"
            pair.tell("rights", f"topic {topic}", text)
    except SyncOvertakenError as error:
        pair.tell("rights", f"cluster {admin.cluster.name}", f"{error}: the next look goes on")
    return pair.synced("topics", 0)


def refuse_writers(
    target: Admin, wanted: Collection[Guard], still_ours: Callable[[], None], still_copies: Callable[[], None]
) -> None:
    """Place these guards, none of which may concern the account itself. Safe to repeat.

    The marker first: a rule that nobody knows for ours would stay for ever. So would one that comes when its marker has
    been taken away, from who stood still since he was told that it is his to place. So it is asked once more behind
    both, and who has been overtaken takes back what he has placed.

    :param still_copies: as `still_ours`, of this moment.
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


def let_writers_in(
    target: Admin, rules: Rules, topics: Collection[str], still_ours: Callable[[], None], timeout_s: float | None = None
) -> list[str]:
    """Take the guards of these topics away, and return which had one. Until brokers show that they are gone.

    :param rules: as the target has them.
    """
    left = placed(rules or (), topics)
    if left:
        denials, markers = [one.rule for one in left], [one.marker for one in left]
        target.remove_access_rules(denials, still_ours, timeout_s)
        target.await_access_rules(gone=denials, timeout_s=timeout_s)
        target.remove_access_rules(markers, still_ours, timeout_s)
    return sorted({one.rule.name for one in left})


def _without_left_behind(pair: MirrorPair) -> tuple[Rules, Rules]:
    """The rules of both clusters. A source that is dead keeps nobody out of what is no copy in the target any more, nor
    the other way round.

    :raises KafkaAdminError: one of them cannot be asked.
    """
    found: list[Rules] = []
    failed: KafkaAdminError | None = None
    for admin in (pair.target, pair.source):
        pair.looked_anew()
        try:
            rules = admin.access_rules()
            _take_left_behind(pair, admin, rules)
            found.append(rules)
        except KafkaAdminError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    there, here = found
    return here, there


def _take_left_behind(pair: MirrorPair, admin: Admin, rules: Rules) -> None:
    """Guards where no mirror is any more: they would lock all writers out. Who placed one too late has died, or stood
    still between his question and his request."""
    cluster = admin.cluster.name
    left = [topic for topic in sorted(marked(rules or ())) if pair.is_free(topic, cluster)]
    if left and not pair.dry_run:
        let_writers_in(admin, rules, left, pair.still_free(left, cluster))
    for topic in left:
        pair.changed("rights", f"topic {topic}", f"it is no copy in {cluster} any more: who may write there does")


def _guard(
    pair: MirrorPair, here: frozenset[TopicAcl], there: frozenset[TopicAcl], topics: Collection[str]
) -> list[str]:
    """The copies to which nobody may write now but their copier."""
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
    if not pair.copies:  # whom the job has spared is not to be locked out by somebody who is a super user
        spared = {one.rule.name for one in placed(there, missing) if one.rule.principal != EVERYBODY}
        missing = [topic for topic in missing if topic not in spared]
        guarded += [topic for topic in sorted(spared) if writers_of(here, there, topic).closed]
    try:
        if not pair.dry_run and (missing or (guarded and pair.copies)):
            if not target.bypasses_rules():
                return _guard_by_name(pair, here, there, guarded, missing)
            if missing:
                wanted, unchanged = [guard(topic) for topic in missing], pair.topics_unchanged(missing)
                refuse_writers(target, wanted, unchanged, pair.topics_unchanged(missing, fresh_s=0))
    except KafkaAdminError as error:
        pair.tell("rights", f"cluster {name}", f"no rule keeps writers out of copies there: {error}")
        return []
    for topic in missing:
        pair.changed("rights", f"topic {topic}", f"nobody may write to it in {name} as long as it is a copy")
    return [*guarded, *missing]


def _guard_by_name(
    pair: MirrorPair,
    here: frozenset[TopicAcl],
    there: frozenset[TopicAcl],
    guarded: Collection[str],
    missing: Collection[str],
) -> list[str]:
    """As `_guard`, by an ordinary account. Is it the one that copies, then all others are denied by name who may write;
    another one does not know whom to spare, and changes nothing.

    :param guarded: topics to which nobody may write.
    :raises KafkaAdminError: the target takes no rules.
    """
    target, name = pair.target, pair.target.cluster.name
    if guarded and pair.copies:
        let_writers_in(target, guards(guarded), guarded, pair.topics_unchanged(guarded))
        text = (
            f"a rule there kept everybody out of {listed(sorted(guarded))}, and the account that copies as well: some "
            "other process has a super user's. Now others are denied by name. Use one account, or super users"
        )
        pair.tell("rights", f"cluster {name}", text)
        guarded, missing = (), [*guarded, *missing]
    found = {topic: writers_of(here, there, topic) for topic in missing}
    closed = {topic for topic, one in found.items() if one.closed}
    if pair.copies:
        closed &= target.writable(closed)  # an account that is new is one of those whom the old one has denied it
        closed |= _spare(pair, {topic: one for topic, one in found.items() if topic not in closed})
    if open_ := [topic for topic in missing if topic not in closed]:
        named = listed(sorted(writers(there, open_)))
        text = (
            f"the account is no super user there, so a rule that keeps everybody out of copies ({listed(open_)}) would "
            "keep the one that copies out as well. Gateways refuse writers; brokers do not refuse "
            f"{named or 'whom `allow.everyone.if.no.acl.found` lets in'}. Make the account a super user (super.users); "
            "or let it write there by a rule of its own, and nobody by a rule for everybody: then the job that copies "
            "denies others by name"
        )
        pair.tell("rights", f"cluster {name}", text)
    return [*guarded, *sorted(closed)]


def _spare(pair: MirrorPair, found: Mapping[str, Writers]) -> set[str]:
    """The topics to which nobody may write now but the account, by a guard for each of the others. One against itself
    goes: it is of another account, which copied before."""
    target, name = pair.target, pair.target.cluster.name
    closable = {topic: one for topic, one in found.items() if one.in_target and not one.open_to}
    copier = target.account_among({who for one in closable.values() for who in one.in_target}) if closable else ""
    closed = {topic for topic, one in closable.items() if copier in one.in_target}
    wanted = [one for topic in sorted(closed) for one in sparing(topic, closable[topic], copier)]
    if wanted:
        unchanged = pair.topics_unchanged(closed)
        refuse_writers(target, wanted, unchanged, pair.topics_unchanged(closed, fresh_s=0))
    if kept_out := sorted(topic for topic in closed if copier in closable[topic].denied):
        own = frozenset(rule for topic in kept_out for rule in guard(topic, copier))
        let_writers_in(target, own, kept_out, pair.topics_unchanged(kept_out))
        text = (
            f"guards of another account there kept the account that copies out of {listed(kept_out)}: it was denied to "
            f"write by name. Now {copier} is spared"
        )
        pair.tell("rights", f"cluster {name}", text)
    for one in wanted:
        text = f"{one.rule.principal} may not write to it in {name} as long as it is a copy"
        pair.changed("rights", f"topic {one.rule.name}", text)
    return closed


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
        pair.changed("rights", f"topic {rule.name}", f"{rule.principal} {verb} {_OPERATIONS[rule.operation]}")
    for rule in sorted(due.alone):
        verb, gone = ("may", "revoked") if rule.allows else ("may not", "lifted")
        text = (
            f"{rule.principal} {verb} {_OPERATIONS[rule.operation]} it in {pair.target.cluster.name} only. If that was "
            f"{gone} in the source, delete the rule there too."
        )
        pair.tell("rights", f"topic {rule.name}", text)


def _locking_out(pair: MirrorPair, there: frozenset[TopicAcl], missing: frozenset[TopicAcl]) -> frozenset[TopicAcl]:
    """Those that would keep an ordinary account that copies out: it writes to a topic without any rule because
    `allow.everyone.if.no.acl.found` lets everybody, which ends with the first one."""
    bare = {rule.name for rule in missing if not any(covers(one, rule.name) for one in there)}
    if not bare or pair.dry_run or pair.target.bypasses_rules():
        return frozenset()
    text = (
        f"no rule of the target lets the account that copies write to {listed(sorted(bare))}, and it is no super user: "
        "the first rule there would keep it out, so none is brought over. Give it a rule for them (WRITE and READ), or "
        "make it a super user (super.users)"
    )
    pair.tell("rights", f"cluster {pair.target.cluster.name}", text)
    return frozenset(rule for rule in missing if rule.name in bare)


def _keep_denied(pair: MirrorPair, there: frozenset[TopicAcl], missing: frozenset[TopicAcl]) -> None:
    """What the source denies by now stays denied when the guard goes that denies it: it is no guard any more."""
    markers = [one.marker for one in placed(there) if one.rule in missing]
    if markers:
        unchanged = pair.topics_unchanged({rule.name for rule in markers})
        pair.target.remove_access_rules(markers, unchanged)
