"""What a cut carries over besides records: members' names in the new coordinator, and producers' last sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ha_core.model import Group, Member
from ha_core.model.producer import FIRST_CLIENT_ID, TERM_STRIDE, client_id
from ha_core.plan.facts import AdoptedGroup, ProducerFacts

MAX_ALIASES = 10_000
"""Per group: beyond it, members join once more."""
MAX_SEQUENCES = 20_000
"""Per partition, the producers that wrote last."""


def compose_aliases(old: Group | None, adopted: AdoptedGroup) -> dict[str, Member]:
    """Aliases into the target: of the members as they are called now, and of those that clients still call by an older
    name, because they moved before and have not joined anew since.

    An older name that leads to a member or generation that is gone is dropped: its client was thrown out of the group
    by a rebalance, and must learn that.
    """
    aliases = {
        f"{adopted.origin_generation}:{member}": Member(member_id=now, generation=adopted.generation)
        for member, now in adopted.members.items()
    }
    for said, member in (old.aliases if old else {}).items():
        now = adopted.members.get(member.member_id)
        if now is not None and member.generation == adopted.origin_generation:
            aliases.setdefault(said, Member(member_id=now, generation=adopted.generation))
    return dict(list(aliases.items())[:MAX_ALIASES])


def merge_sequences(
    old: Mapping[int, tuple[int, int]], found: Iterable[ProducerFacts], term: int
) -> dict[int, tuple[int, int]]:
    """Client producer id → (epoch, last sequence), the newest first: what this term appended, then what older ones did.

    :param found: what the origin's leader remembers. Of it count the ids that belong to `term`: those of older stays
        are in `old` already, and ids of the cluster itself mean somebody else in the next cluster.
    """
    mine = [
        (producer.last_timestamp_ms, client_id(producer.producer_id), (producer.epoch, producer.last_sequence))
        for producer in found
        if producer.last_sequence >= 0 and _belongs(producer.producer_id, term)
    ]
    newest = {producer: last for _, producer, last in sorted(mine, key=lambda entry: (-entry[0], entry[1]))}
    merged = {**newest, **{producer: last for producer, last in old.items() if producer not in newest}}
    return dict(list(merged.items())[:MAX_SEQUENCES])


def _belongs(upstream: int, term: int) -> bool:
    return upstream >= FIRST_CLIENT_ID and upstream // TERM_STRIDE == term and client_id(upstream) >= FIRST_CLIENT_ID
