"""Whether the copy of a mirror may be deleted when the mirror ends: no reader, group or operator may still need it."""

from collections.abc import Collection, Iterable

from ha_core.model import LostTail, View
from ha_core.plan.facts.verdict import listed


def needed(view: View, topic: str, cluster: str, tails: Iterable[LostTail], groups: Collection[str]) -> str:
    """Why the topic has to stay in `cluster`, with the way out; empty: it may be deleted.

    :param groups: groups that are at home there and have committed offsets of it. A coordinator drops the commits of a
        topic that its cluster deletes, wherever the topic is read.
    """
    known = view.topics.get(topic)
    if known is None or not known.mapped or not known.sound:
        return "its map is gone or damaged, so its readers are not known: repair the map first"
    if cluster in known.clusters:
        return (
            f"its map names {cluster}: records of it are read or written there. `switchyard topic {topic}` shows "
            "which; switch it away, and let them age"
        )
    if any(tail.topic == topic and tail.cluster == cluster and tail.counted is None for tail in tails):
        return (
            f"{cluster} holds records that no copy had, and that are not counted yet: `switchyard mirror reconcile "
            f"{cluster}`, and fetch those that you need"
        )
    if bound := sorted(user for user, bindings in view.bindings.items() if bindings.topics.get(topic) == cluster):
        named = listed(f"{user}#{topic}" for user in bound)
        return f"{named} is bound to {cluster}: remove that binding (`switchyard bindings delete`)"
    if groups:
        named = listed(f"group {group}" for group in sorted(groups))
        return (
            f"{named} commits offsets of it there, and would lose them: switch it to another cluster, or delete it "
            f"in {cluster}"
        )
    return ""
