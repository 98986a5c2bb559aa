"""State that a cut carries over: members' aliases in the new coordinator, and producers' last sequences."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from ha_core.model import Group, LastSequences, Member
from ha_core.model.evidence import AdoptedGroup, Cut
from ha_core.model.producer import FIRST_CLIENT_ID, own_id
from ha_core.plan.facts.clusters import ProducerFacts, Producers, Surplus

NEWEST_MS = 1 << 62
"""A producer that the leader did not know yet when asked wrote after all the others."""
MAX_ALIASES = 10_000
"""Per group; members beyond it join once more."""
MAX_SEQUENCES = 20_000
"""Per partition; the last writers are kept."""
MAX_TOPIC_SEQUENCES = 150_000
"""Per topic, over all partitions: about 850 kB stored, of the 1 MiB that ZooKeeper accepts per write."""
MAX_TOPIC_TRANSACTIONAL = 20_000
"""Transactional producers per topic, for each cluster that it left by force."""
FORGOTTEN_MS = 86_400_000
"""Kafka's `producer.id.expiration.ms`; clients give a record up after 2 to 5 minutes (`delivery.timeout.ms`)."""


LastOf = tuple[int, int]
"""(epoch, last sequence)."""


def compose_aliases(old: Group | None, adopted: AdoptedGroup) -> dict[str, Member]:
    """Aliases into the target: for members by their current ids, and for clients that moved before and have not joined
    since, also by their older ids.

    An alias to a member or generation that is gone is dropped: a rebalance has removed its client, which must be
    informed.
    """
    aliases = {
        f"{adopted.origin_generation}:{member}": Member(member_id=now, generation=adopted.generation)
        for member, now in adopted.members.items()
    }
    for alias, member in (old.aliases if old else {}).items():
        now = adopted.members.get(member.member_id)
        if now is not None and member.generation == adopted.origin_generation:
            aliases.setdefault(alias, Member(member_id=now, generation=adopted.generation))
    return dict(list(aliases.items())[:MAX_ALIASES])


def carry_sequences(
    name: str,
    old: LastSequences | None,
    cuts: Iterable[Cut],
    producers: Producers,
    read_ms: int | None,
    complete: bool = True,
) -> LastSequences | None:
    """The topic's last sequences when `cuts` end writer epochs of its partitions; None: no change.

    Producers read at a cut a day ago that have not written since are left out: no client retries a batch that old.
    Producers that the origin still knows are never too old, because applications set the timestamps. If there are more
    than `MAX_TOPIC_SEQUENCES`, the last writers are kept, and the partition counts as incomplete (`terms`).

    :param producers: as reported by the clusters of these epochs, if they did.
    :param read_ms: time of reading the producers, milliseconds since 1970; None: nothing is too old.
    :param complete: False: others than `producers` may have written as well.
    """
    before = old or LastSequences(name=name)
    partitions, terms, read = dict(before.partitions), dict(before.terms), dict(before.read_ms)
    for partition, _, _, writer_epoch in cuts:
        if (facts := producers.get((name, partition))) is None:
            continue
        earlier = partitions.get(partition, {})
        if read_ms is not None:
            earlier = earlier if read.get(partition, read_ms) >= read_ms - FORGOTTEN_MS else {}
            read[partition] = read_ms
        partitions[partition] = merge_sequences(earlier, facts, writer_epoch - 1)
        if complete:
            terms[partition] = writer_epoch
    max_each = _most_of_each(partitions.values())
    for partition, known in partitions.items():
        if len(known) > max_each:
            partitions[partition] = dict(islice(known.items(), max_each))
            terms.pop(partition, None)
    partitions = {partition: known for partition, known in partitions.items() if known}
    if partitions == before.partitions and terms == before.terms:
        return None
    return before.changed(partitions=partitions, terms=terms, read_ms=read)


def merge_sequences(
    old: Mapping[int, tuple[int, int]], facts: Iterable[ProducerFacts], writer_epoch: int
) -> dict[int, tuple[int, int]]:
    """Client producer id → (epoch, last sequence), newest first: producers of this writer epoch, then older ones.

    :param facts: producers that the origin's leader remembers. Only ids of `writer_epoch` count: those of older epochs
        are in `old` already, and ids of the cluster itself are other producers in the next cluster.
    """
    mine = [
        (producer.last_timestamp_ms, own, (producer.epoch, producer.last_sequence))
        for producer in facts
        if producer.last_sequence >= 0 and (own := own_id(producer.producer_id, writer_epoch)) is not None
    ]
    newest = {producer: last for _, producer, last in sorted(mine, key=lambda entry: (-entry[0], entry[1]))}
    return {**newest, **{producer: last for producer, last in old.items() if producer not in newest}}


def leave_by_force(
    name: str, old: LastSequences | None, cluster: str, cuts: Iterable[Cut], read: Mapping[int, Mapping[int, LastOf]]
) -> LastSequences | None:
    """The topic's last sequences when a forced cut leaves records of partitions in `cluster` unread; None: no change.

    :param read: partition → producer id in the cluster → last sequence that readers get, last writers at the end. A
        partition whose records are still read from the cluster is missing.
    """
    left = {cut.partition: _coordinated(read[cut.partition]) for cut in cuts if cut.partition in read}
    if not left:
        return old
    before = old or LastSequences(name=name)
    known = {**before.left_by_force.get(cluster, {}), **left}
    max_each = min(MAX_SEQUENCES, MAX_TOPIC_TRANSACTIONAL // len(known))
    known = {partition: dict(islice(each.items(), max_each)) for partition, each in known.items()}
    return before.changed(left_by_force={**before.left_by_force, cluster: known})


def come_back(sequences: LastSequences | None, cluster: str, cuts: Iterable[Cut]) -> LastSequences | None:
    """Drop the entries of partitions that had left the cluster by force: it is their writer again."""
    if sequences is None or cluster not in sequences.left_by_force:
        return sequences
    back = {cut.partition for cut in cuts}
    stays = {partition: each for partition, each in sequences.left_by_force[cluster].items() if partition not in back}
    left = {name: each for name, each in sequences.left_by_force.items() if name != cluster}
    return sequences.changed(left_by_force={**left, cluster: stays} if stays else left)


def _coordinated(producers: Mapping[int, LastOf]) -> dict[int, LastOf]:
    """Producers whose ids a coordinator has issued, newest first."""
    return {id_: producers[id_] for id_ in reversed(list(producers)) if 0 <= id_ < FIRST_CLIENT_ID}


def below_cut(facts: Sequence[ProducerFacts], surplus: Surplus) -> tuple[ProducerFacts, ...] | None:
    """Each producer's last sequence below a cut that the log has passed without a fence; None: unknown.

    A leader remembers only the last batch of each producer, which may be in the surplus, at or above the cut. The
    surplus headers have the first sequence of each producer there; the one before was its last below the cut. Too high
    a guess would make gateways answer a retry as a duplicate of a batch that no log holds.

    :param facts: producers that the leader remembers, read after the log reached the cut and before the surplus.
    """
    if not surplus.whole:
        return None
    last = {producer.producer_id: producer for producer in facts}
    for producer_id, (epoch, sequence) in surplus.first.items():
        remembered = last.get(producer_id)
        if remembered is not None and remembered.epoch < epoch:
            continue  # it raised its epoch at the cut (KIP-360) after the leader was asked
        at_ms = NEWEST_MS if remembered is None else remembered.last_timestamp_ms
        last[producer_id] = ProducerFacts(producer_id, epoch, sequence - 1, at_ms)
    return tuple(producer for producer in last.values() if producer.last_sequence >= 0)


def _most_of_each(partitions: Iterable[Collection[int]]) -> int:
    """Number of producers to keep per partition, so that the topic stays within its bound."""
    sizes = sorted(len(known) for known in partitions)
    left = MAX_TOPIC_SEQUENCES
    for index, size in enumerate(sizes):
        if size * (len(sizes) - index) > left:
            return min(MAX_SEQUENCES, left // (len(sizes) - index))
        left -= size
    return MAX_SEQUENCES
