"""Whether the copy of a mirror may be deleted when the mirror ends: nobody may need anything that lies there."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ha_core.model import LostTail, View
from ha_core.plan.facts.verdict import listed


def needed(view: View, topic: str, cluster: str, tails: Iterable[LostTail], groups: Collection[str]) -> str:
    """Why the topic has to stay in `cluster`, with the way out; empty: it may go.

    :param groups: those that are at home there and have committed offsets of it. A coordinator forgets the offsets of
        a topic that is deleted beside it, wherever the topic is read.
    """
    known = view.topics.get(topic)
    if known is None or not known.mapped or not known.sound:
        return "its map is gone or damaged, so nobody can say who is led there: mend the map first"
    if cluster in known.clusters:
        return (
            f"its map leads there: records of it are read or written in {cluster}. `switchyard topic {topic}` shows "
            "which; switch it away, and let them age"
        )
    if any(tail.topic == topic and tail.cluster == cluster and tail.counted is None for tail in tails):
        return (
            f"{cluster} holds records that no copy had, and nobody has counted them: `switchyard mirror reconcile "
            f"{cluster}`, and fetch what is needed"
        )
    if bound := sorted(user for user, found in view.bindings.items() if found.topics.get(topic) == cluster):
        named = listed(f"{user}#{topic}" for user in bound)
        return f"{named} is bound to {cluster}: take that binding away (`switchyard bindings delete`)"
    if groups:
        named = listed(f"group {group}" for group in sorted(groups))
        return (
            f"{named} commits offsets of it there, and would lose them: switch it to another cluster, or delete it "
            f"in {cluster}"
        )
    return ""
