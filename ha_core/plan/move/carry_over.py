"""What a cut carries over besides records: members' names in the new coordinator, and producers' last sequences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from ha_core.model import Group, LastSequences, Member
from ha_core.model.operation import AdoptedGroup, Cut
from ha_core.model.producer import FIRST_CLIENT_ID, own_id
from ha_core.plan.facts.clusters import ProducerFacts, Producers, Surplus

NEWEST_MS = 1 << 62
"""A producer that the leader did not know yet when it was asked wrote after all the others."""
MAX_ALIASES = 10_000
"""Per group: beyond it, members join once more."""
MAX_SEQUENCES = 20_000
"""Per partition, the producers that wrote last."""
MAX_TOPIC_SEQUENCES = 150_000
"""Per topic, over all partitions: as stored about 850 kB at most, of the 1 MiB that ZooKeeper takes at once."""
MAX_TOPIC_TRANSACTIONAL = 20_000
"""Transactional producers per topic, of each cluster that it left by force."""
FORGOTTEN_MS = 86_400_000
"""Kafka's `producer.id.expiration.ms`; clients give a record up after 2 to 5 minutes (`delivery.timeout.ms`)."""


LastOf = tuple[int, int]
"""(epoch, last sequence)."""


def compose_aliases(old: Group | None, adopted: AdoptedGroup) -> dict[str, Member]:
    """Aliases into the target: of members by their names now, and by older ones of clients that moved before and have
    not joined since.

    One that leads to a member or generation that is gone is dropped: a rebalance threw its client out, which must learn
    that.
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


def carry_sequences(
    name: str,
    old: LastSequences | None,
    cuts: Iterable[Cut],
    producers: Producers,
    read_ms: int | None,
    complete: bool = True,
) -> LastSequences | None:
    """The topic's last sequences when `cuts` end terms of its partitions; None where nothing changes.

    What was read at a cut a day ago, and has not written since, is left out: nobody sends a batch of then again. Whom
    the origin still knows is never too old: applications set the timestamp. Of more than `MAX_TOPIC_SEQUENCES` those
    that wrote last stay, and not all are known (`terms`).

    :param producers: what the clusters that had these terms say of producers, where they do.
    :param read_ms: when the producers were asked, milliseconds since 1970; None: nothing is too old.
    :param complete: False: only those that are named are known, others may have written as well.
    """
    before = old or LastSequences(name=name)
    partitions, terms, read = dict(before.partitions), dict(before.terms), dict(before.read_ms)
    for partition, _, _, term in cuts:
        if (found := producers.get((name, partition))) is None:
            continue
        earlier = partitions.get(partition, {})
        if read_ms is not None:
            earlier = earlier if read.get(partition, read_ms) >= read_ms - FORGOTTEN_MS else {}
            read[partition] = read_ms
        partitions[partition] = merge_sequences(earlier, found, term - 1)
        if complete:
            terms[partition] = term
    most = _most_of_each(partitions.values())
    for partition, known in partitions.items():
        if len(known) > most:
            partitions[partition] = dict(islice(known.items(), most))
            terms.pop(partition, None)
    partitions = {partition: known for partition, known in partitions.items() if known}
    if partitions == before.partitions and terms == before.terms:
        return None
    return before.changed(partitions=partitions, terms=terms, read_ms=read)


def merge_sequences(
    old: Mapping[int, tuple[int, int]], found: Iterable[ProducerFacts], term: int
) -> dict[int, tuple[int, int]]:
    """Client producer id → (epoch, last sequence), the newest first: what this term appended, then what older ones did.

    :param found: what the origin's leader remembers. Of it count the ids that belong to `term`: those of older stays
        are in `old` already, and ids of the cluster itself mean somebody else in the next cluster.
    """
    mine = [
        (producer.last_timestamp_ms, own, (producer.epoch, producer.last_sequence))
        for producer in found
        if producer.last_sequence >= 0 and (own := own_id(producer.producer_id, term)) is not None
    ]
    newest = {producer: last for _, producer, last in sorted(mine, key=lambda entry: (-entry[0], entry[1]))}
    return {**newest, **{producer: last for producer, last in old.items() if producer not in newest}}


def leave_by_force(
    name: str, old: LastSequences | None, cluster: str, cuts: Iterable[Cut], read: Mapping[int, Mapping[int, LastOf]]
) -> LastSequences | None:
    """The topic's last sequences when a forced cut leaves what partitions have in `cluster` unread; None where nothing
    changes.

    :param read: partition → producer id in the cluster → what is read of it, those that wrote last at the end. A
        partition whose records are still read where they lie is missing.
    """
    left = {cut.partition: _coordinated(read[cut.partition]) for cut in cuts if cut.partition in read}
    if not left:
        return old
    before = old or LastSequences(name=name)
    known = {**before.left_by_force.get(cluster, {}), **left}
    most = min(MAX_SEQUENCES, MAX_TOPIC_TRANSACTIONAL // len(known))
    known = {partition: dict(islice(each.items(), most)) for partition, each in known.items()}
    return before.changed(left_by_force={**before.left_by_force, cluster: known})


def come_back(known: LastSequences | None, cluster: str, cuts: Iterable[Cut]) -> LastSequences | None:
    """Without what was said of these partitions when they left the cluster: it is their writer again."""
    if known is None or cluster not in known.left_by_force:
        return known
    back = {cut.partition for cut in cuts}
    stays = {partition: each for partition, each in known.left_by_force[cluster].items() if partition not in back}
    left = {name: each for name, each in known.left_by_force.items() if name != cluster}
    return known.changed(left_by_force={**left, cluster: stays} if stays else left)


def _coordinated(producers: Mapping[int, LastOf]) -> dict[int, LastOf]:
    """Those whose ids a coordinator has issued, the newest first."""
    return {one: producers[one] for one in reversed(list(producers)) if 0 <= one < FIRST_CLIENT_ID}


def below_cut(known: Sequence[ProducerFacts], surplus: Surplus) -> tuple[ProducerFacts, ...] | None:
    """Each producer's last sequence below a cut that the log has run past, without a fence; None where that cannot be
    said.

    A leader remembers of each producer only its last batch, which may lie in the surplus, from the cut on. Its headers
    say with which sequence each producer crossed the cut: the one before was its last below it. A guess that is too
    high would let a retry pass for a duplicate that no log holds.

    :param known: what the leader remembers, asked after the log had reached the cut and before the surplus was read.
    """
    if not surplus.whole:
        return None
    last = {producer.producer_id: producer for producer in known}
    for producer_id, (epoch, sequence) in surplus.first.items():
        remembered = last.get(producer_id)
        if remembered is not None and remembered.epoch < epoch:
            continue  # it raised its epoch at the cut (KIP-360) after the leader was asked
        at_ms = NEWEST_MS if remembered is None else remembered.last_timestamp_ms
        last[producer_id] = ProducerFacts(producer_id, epoch, sequence - 1, at_ms)
    return tuple(producer for producer in last.values() if producer.last_sequence >= 0)


def _most_of_each(partitions: Iterable[Collection[int]]) -> int:
    """How many producers of each partition stay, so that all of a topic are no more than it may have."""
    sizes = sorted(len(known) for known in partitions)
    left = MAX_TOPIC_SEQUENCES
    for index, size in enumerate(sizes):
        if size * (len(sizes) - index) > left:
            return min(MAX_SEQUENCES, left // (len(sizes) - index))
        left -= size
    return MAX_SEQUENCES
