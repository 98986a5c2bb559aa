"""A thousand topics of fifty partitions, in batches whose revisions ZooKeeper takes."""

import json
from collections.abc import Sequence
from random import Random

import pytest

from ha_core.model import Extent, LastSequences, MigrateOperation, MoveRequest, MoveSet, Scope, Topic, View
from ha_core.model.portions import portions
from ha_core.model.producer import FIRST_CLIENT_ID
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.revisions import (
    BATCH_BYTES,
    BATCH_TOPICS,
    MAX_REVISION_BYTES,
    in_batches,
    in_parts,
    in_revisions,
)
from ha_core.operations.migration.planning import _BYTES_PER_PARTITION
from ha_core.plan.engine.revision import Documents
from ha_core.plan.facts.clusters import PartitionEnds
from ha_core.plan.migration.crossing import open_change, propose_change, settle_change
from ha_core.store.documents import to_bytes
from ha_core.store.errors import TooLargeError
from ha_core.store.tree import MAX_REQUEST_BYTES
from tests.kit.operations import a_migration
from tests.plan.revisions import written

TOPICS, PARTITIONS = 1_000, 50
LONG = "a-topic-with-quite-a-long-name-as-teams-like-to-have-them"


def size(documents: Documents) -> int:
    return sum(len(to_bytes(put)) for put in documents.puts)


def mapped(number: int) -> Topic:
    seed = Random(number)
    partitions: dict[int, tuple[Extent, ...]] = {}
    for partition in range(PARTITIONS):
        cut, base = seed.randrange(10**11), seed.randrange(10**11)
        partitions[partition] = (
            Extent(cluster="east-data-centre", start=0, end=cut, base=0, writer_epoch=0),
            Extent(cluster="west-data-centre", start=cut, base=base, writer_epoch=1),
        )
    return Topic(name=f"{LONG}-{number}", writer="west-data-centre", partitions=partitions)


def sequences(name: str, producers: int) -> LastSequences:
    seed = Random(name)
    of_one = [
        {FIRST_CLIENT_ID + seed.randrange(10**6): (0, seed.randrange(2**31)) for _ in range(producers)}
        for _ in range(PARTITIONS)
    ]
    return LastSequences(name=name, partitions=dict(enumerate(of_one)), terms=dict.fromkeys(range(PARTITIONS), 1))


def an_operation(environment: Environment) -> Journal[MigrateOperation]:
    return Journal(environment, a_migration(state="crossing"), 0)


def test_every_revision_of_every_batch_fits_into_one_write() -> None:
    # Given a thousand topics
    names = [f"{LONG}-{number}" for number in range(TOPICS)]
    sizes = dict.fromkeys(names, _BYTES_PER_PARTITION * PARTITIONS)
    # When they are divided into batches
    batches = list(portions(names, MAX_REVISION_BYTES, sizes.__getitem__, 200))
    # Then each topic is in one, and each revision of the first two fits into a write
    assert [name for batch in batches for name in batch] == names
    assert all(len(batch) <= 200 for batch in batches)
    for batch in batches[:2]:
        scope = Scope(topics=tuple(batch))
        request = MoveRequest(scope=scope, origin="east-data-centre", target="west-data-centre", reason="t")
        moves = MoveSet(topics=tuple(batch), reasons={f"topic:{name}": "named in the scope" for name in batch})
        operation = a_migration(state="running", request=request, moves=moves)
        keys = {(name, p): PartitionEnds(10**12, 10**12) for name in batch for p in range(PARTITIONS)}
        proposal = propose_change(operation, View(), batch, keys, dict.fromkeys(keys, 2 * 10**12))
        assert size(proposal) < MAX_REQUEST_BYTES
        operation, view = written(proposal)
        counts = dict.fromkeys(batch, PARTITIONS)
        operation, view = written(open_change(operation, view, batch, keys, counts), view)
        reached = {key: PartitionEnds(10**12, 2 * 10**12) for key in keys}
        done, _ = written(settle_change(operation, view, batch, reached, counts, {}), view)
        assert done.state == "cut"


def test_a_revision_leaves_room_for_the_last_sequences_of_thirty_producers_per_partition(
    environment: Environment,
) -> None:
    topics = {topic.name: topic for topic in map(mapped, range(100))}

    runs = list(in_revisions(an_operation(environment), topics, topics))

    assert [name for run in runs for name in run] == list(topics)
    assert 35 <= len(runs[0]) <= 45, "as many wait under the fence that ends a crossing"
    revision = Documents((*(topics[name] for name in runs[0]), *(sequences(name, 30) for name in runs[0])))
    assert size(revision) < MAX_REQUEST_BYTES


def test_a_change_too_large_for_one_write_is_written_in_halves() -> None:
    written: list[Sequence[str]] = []

    def write(names: Sequence[str]) -> None:
        if len(names) > 2:
            raise TooLargeError("too many at once")
        written.append(names)

    in_parts(list("abcdefg"), write)

    assert written == [["a"], ["b", "c"], ["d", "e"], ["f", "g"]]


def test_a_single_topic_too_large_for_one_write_is_refused() -> None:
    written: list[Sequence[str]] = []

    def write(names: Sequence[str]) -> None:
        if "b" in names:
            raise TooLargeError("/sequences/b is too large")
        written.append(names)

    with pytest.raises(TooLargeError, match="/sequences/b"):
        in_parts(["a", "b"], write)

    assert written == [["a"]]


def test_ten_thousand_partitions_fit_in_one_batch_when_their_history_entry_is_small() -> None:
    topics = [mapped(number) for number in range(BATCH_TOPICS + 10)]

    batches = list(in_batches(topics, {}))

    assert [len(batch) for batch in batches] == [BATCH_TOPICS, 10]
    assert sum(len(to_bytes(topic)) for topic in batches[0]) <= BATCH_BYTES


def test_a_batch_ends_when_its_history_entry_is_full() -> None:
    topics = [mapped(number) for number in range(BATCH_TOPICS)]
    ends = [[p, "east-data-centre", 0, 10**11 + p, 10**11, 10**11 + p] for p in range(PARTITIONS)]
    details = {topic.name: ends for topic in topics}

    batches = list(in_batches(topics, details))

    assert [topic for batch in batches for topic in batch] == topics
    assert 3 <= len(batches) <= 5
    assert all(len(json.dumps({t.name: details[t.name] for t in batch})) < 1.1 * BATCH_BYTES for batch in batches)
