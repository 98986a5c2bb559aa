"""Access rules that a mirror has brought to its target, and that its source no longer has: removed there, if asked for.

No request tells who has made a rule. So each rule that a sync adds is recorded after it was added
(`ha_core.model.brought_rights`), and only recorded ones are removed: those of the target's operators stay, and those
that a process added which died before it recorded them. A rule that is gone in the target is forgotten; if it is made
there again, it is the target's own.
"""

from collections.abc import Collection

from ha_core.model import Mirror
from ha_core.model.brought_rights import BroughtRule
from ha_core.operations.copies.syncing.pair import MirrorPair
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.mirror.syncing import rules_revoked

OPERATIONS = {3: "READ", 4: "WRITE", 8: "DESCRIBE", 10: "DESCRIBE_CONFIGS"}


def remove_revoked(
    pair: MirrorPair,
    here: frozenset[TopicAcl],
    there: frozenset[TopicAcl],
    added: frozenset[TopicAcl],
    alone: frozenset[TopicAcl],
) -> frozenset[TopicAcl]:
    """Remove brought rules that are revoked, of mirrors whose policy asks for that; and record what is brought.

    :param here: the source's rules, without guards; likewise `there` the target's, with those that were added now.
    :param added: by this look.
    :param alone: rules that only the target has.
    :return: the rules of `alone` that are settled: removed, or a finding of their own.
    """
    mirrors = [mirror for _, mirror in sorted(pair.mirrors.items()) if mirror.remove_revoked_rights]
    if not mirrors:
        return frozenset()
    known = pair.store.brought_rights([(mirror.key, mirror.link) for mirror in mirrors])
    brought = {mirror.topic: _as_acls(mirror, known.get(mirror.key, ())) for mirror in mirrors}
    every = frozenset(rule for rules in brought.values() for rule in rules)
    revoked = rules_revoked(alone, there, every, pair.target.security.principal)
    removed = frozenset[TopicAcl]()
    if revoked.gone and not here:
        text = (
            f"{pair.source.cluster.name} lists no rule at all: {amount(len(revoked.gone), 'rule', 'stays', 'stay')} "
            "that mirrors have brought. If all were revoked there, delete them here too"
        )
        pair.add_finding("rights", f"cluster {pair.target.cluster.name}", text)
    else:
        removed = _remove(pair, revoked.gone)
    for topic, rules in sorted(revoked.last.items()):
        text = (
            f"{pair.source.cluster.name} has revoked rules of {listed(sorted({rule.principal for rule in rules}))}. "
            f"They stay, as no other rule of {pair.target.cluster.name} concerns the topic: without any, brokers with "
            "`allow.everyone.if.no.acl.found` let everybody in. If yours do not, delete them there"
        )
        pair.add_finding("rights", f"topic {topic}", text)
    if not pair.dry_run:
        for mirror in mirrors:
            ours = frozenset(rule for rule in added if rule.name == mirror.topic)
            gone = brought[mirror.topic] - (there - removed)
            if ours or gone:
                pair.store.note_brought(mirror.key, mirror.link, map(_as_brought, ours), map(_as_brought, gone))
    return removed.union(*revoked.last.values())


def forget_ended(pair: MirrorPair) -> None:
    """Forget the rules of mirrors that have ended: they are the target's own by now."""

    def keep(key: str) -> bool:
        topic, _, cluster = key.rpartition("@")
        return not pair.is_free(topic, cluster)

    if pair.topics is None and not pair.dry_run:
        pair.store.forget_brought(keep)


def _remove(pair: MirrorPair, rules: frozenset[TopicAcl]) -> frozenset[TopicAcl]:
    if rules and not pair.dry_run:
        pair.target.remove_access_rules(rules, pair.topics_unchanged({rule.name for rule in rules}))
        pair.target.await_access_rules(gone=rules)
    for rule in sorted(rules):
        verb = "may no longer" if rule.allows else "may again"
        text = f"{rule.principal} {verb} {OPERATIONS[rule.operation]}: {pair.source.cluster.name} has revoked the rule"
        pair.changed("rights", f"topic {rule.name}", text)
    return rules


def _as_acls(mirror: Mirror, rules: Collection[BroughtRule]) -> frozenset[TopicAcl]:
    return frozenset(TopicAcl("literal", mirror.topic, *rule) for rule in rules)


def _as_brought(rule: TopicAcl) -> BroughtRule:
    return BroughtRule(rule.principal, rule.host, rule.operation, rule.allows)
