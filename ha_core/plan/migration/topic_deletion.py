"""Verdicts on deleting topics in all clusters: obstacles, and warnings. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ha_core.model import Lock, View
from ha_core.plan.facts.verdict import Verdict, Verdicts, error, info, listed, warning
from ha_core.plan.mirror.mirrored_topics import internal_topics


@dataclass(frozen=True, slots=True)
class TopicInCluster:
    """A topic in one cluster.

    :ivar topic_id: empty if brokers have no ids.
    :ivar records: offsets between log starts and ends; None: a leader did not answer.
    """

    topic_id: str = ""
    records: int | None = None


@dataclass(frozen=True, slots=True)
class DeletionFacts:
    """Facts from the clusters.

    :ivar held: topic → cluster → the topic there.
    :ivar unasked: registered cluster that did not answer, or is masked → why.
    :ivar readers: topic → groups with members that have committed offsets of it.
    :ivar locked: topic → operation that works on it.
    """

    held: Mapping[str, Mapping[str, TopicInCluster]] = field(default_factory=dict)
    unasked: Mapping[str, str] = field(default_factory=dict)
    readers: Mapping[str, Collection[str]] = field(default_factory=dict)
    locked: Mapping[str, str] = field(default_factory=dict)


def judge(view: View, names: Collection[str], facts: DeletionFacts, accept_away: bool) -> tuple[Verdict, ...]:
    """:param accept_away: delete although a cluster does not answer. The name stays taken until it does."""
    verdicts = [verdict for name in names for verdict in _of_topic(view, name, facts)]
    return (*verdicts, *_of_clusters(facts, accept_away))


def _of_topic(view: View, name: str, facts: DeletionFacts) -> Verdicts:
    about = f"topic {name}"
    if name in internal_topics(view):
        yield error("internal-topic", about, "Clusters and copiers keep their own state in it.", "Leave it out.")
        return
    if (operation := facts.locked.get(name)) == Lock.UNREADABLE:
        text = "An operation works on it whose lock this version cannot read."
        yield error("locked", about, text, Lock.unreadable(f"topic:{name}").way_out_if_unreadable, cause="busy")
        return
    if operation:
        text = f"Operation {operation} works on it."
        yield error("locked", about, text, f"Wait for it, or `switchyard resume {operation}`.", cause="busy")
        return
    held = facts.held.get(name, {})
    if not held and name not in view.topics and not facts.unasked:
        yield error("unknown-topic", about, "No cluster has it, and it has no map.", "Check the name.")
        return
    counts = [cluster.records for cluster in held.values()]
    if any(count != 0 for count in counts):
        known = None if None in counts else sum(filter(None, counts))
        where = ", ".join(sorted(held))
        yield warning(
            "holds-records", about, f"Its records in {where} are deleted for good.", number=known, unit="records"
        )
    if readers := sorted(facts.readers.get(name, ())):
        text = f"{listed(f'group {group}' for group in readers)} reads it now."
        yield warning("read-now", about, text, "Stop its members first, or they fail for want of the topic.")
    for mirror in sorted(one.target for one in view.mirrors.values() if one.topic == name):
        yield info("mirrored", about, f"Its mirror in {mirror} ends, and the copy is deleted.")


def _of_clusters(facts: DeletionFacts, accept_away: bool) -> Verdicts:
    for cluster, why in sorted(facts.unasked.items()):
        level = warning if accept_away else error
        remedy = (
            "The name stays taken until it answers and the command is repeated, or until it is removed from this "
            "installation (`switchyard clusters remove`)."
        )
        if accept_away:
            yield level("unreachable-cluster", f"cluster {cluster}", f"{why} It may keep them.", remedy)
        else:
            text = f"{why} It may have the topics, and they would be back with it."
            yield level("unreachable-cluster", f"cluster {cluster}", text, "Or give --accept-away.", cause="away")
