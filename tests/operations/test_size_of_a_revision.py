"""How much a move writes at once is known before it begins, and what can be small is."""

from random import Random

import pytest

from ha_core.model import Extent, LastSequences, MoveRequest, MoveSet, Scope, SwitchOperation, Topic, View
from ha_core.model.producer import FIRST_CLIENT_ID
from ha_core.operations.migration.planning import Moving, _bytes
from ha_core.plan.engine.revision import Documents
from ha_core.plan.facts.clusters import Facts, GroupFacts, PartitionEnds, ProducerFacts, TopicFacts
from ha_core.plan.migration.crossing import open_change, propose_change, settle_change
from ha_core.plan.move.carry_over import MAX_TOPIC_SEQUENCES
from ha_core.plan.move.closure import closure
from ha_core.plan.move.planner import cut_change, fence_change
from ha_core.plan.preflight import PreflightCase
from ha_core.plan.preflight.sizes import REVISION_BYTES, revision_bytes, too_large
from ha_core.store.documents import to_bytes
from ha_core.store.paths import name_of, path_of
from ha_core.store.tree import MAX_REQUEST_BYTES, Create, check_size
from tests.kit.operations import a_migration, a_switch
from tests.plan.revisions import written, written_of

DAY_MS = 86_400_000
NOW_MS = 1_763_800_000_000


def check(documents: Documents) -> int:
    """Its length, as one write with its note. :raises TooLargeError: it is refused."""
    ops = [Create(path_of(type(put), name_of(put)), to_bytes(put)) for put in documents.puts]
    note = Create("/changes/change-0000000001", b"".join(op.path.encode() + b'","' for op in ops))
    check_size([*ops, note])
    return sum(100 + len(op.path) + len(op.data) for op in [*ops, note])


def an_operation(names: list[str]) -> SwitchOperation:
    request = MoveRequest(scope=Scope(topics=tuple(names)), origin="east", target="west", reason="r", cut="predicted")
    moves = MoveSet(topics=tuple(names), reasons={f"topic:{name}": "named in the scope" for name in names})
    return a_switch(id="switch-20261122-070000-abcd", state="running", request=request, moves=moves)


def case(request: MoveRequest, facts: Facts, view: View | None = None) -> PreflightCase:
    view = view or View()
    return PreflightCase(view, request, closure(view, {}, request), facts)


def producers_of(keys: list[tuple[str, int]], count: int) -> dict[tuple[str, int], tuple[ProducerFacts, ...]]:
    seed = Random(1)
    ids = sorted(seed.sample(range(10 * count), count))
    return {
        key: tuple(ProducerFacts(FIRST_CLIENT_ID + number, 0, seed.randrange(2**31), NOW_MS - number) for number in ids)
        for key in keys
    }


def a_cut(topics: int, partitions: int, producers: int, extents: int = 1) -> tuple[int, int]:
    """Bytes that the revision of the cut takes, and that pre-flight expects; the first 0 where it is refused."""
    seed = Random(7)
    names = [f"orders-of-team-{number:04d}" for number in range(topics)]
    keys = [(name, p) for name in names for p in range(partitions)]
    operation = an_operation(names)
    maps = {name: Topic(name=name, writer="east", partitions=_stays(partitions, extents, seed)) for name in names}
    view = View(topics=maps if extents > 1 else {})
    facts = Facts(
        topics={("east", n): TopicFacts(True, partitions, producers=partitions * producers) for n in names},
    )
    expected = revision_bytes(case(operation.request, facts, view))
    at = {key: view.topics[key[0]].partitions[key[1]][-1].base if extents > 1 else 0 for key in keys}
    there = seed.randrange(10**11) if extents > 1 else 0
    ends = {key: PartitionEnds(there, at[key] + seed.randrange(10**11)) for key in keys}
    held, now = written_of(SwitchOperation, fence_change(operation, view), view)
    origin_ends: dict[str, dict[int, int]] = {}
    for (name, partition), end in ends.items():
        origin_ends.setdefault(name, {})[partition] = end.origin or 0
    held = held.noting(origin_ends=origin_ends)
    documents = cut_change(held, now, ends, producers_of(keys, producers) if producers else {}, {}, read_ms=NOW_MS)
    size = sum(len(to_bytes(put)) for put in documents.puts)
    return (check(documents) if size < MAX_REQUEST_BYTES else size), expected


def _stays(partitions: int, count: int, seed: Random) -> dict[int, tuple[Extent, ...]]:
    """There and back again: the last stay is in east."""
    extents: dict[int, tuple[Extent, ...]] = {}
    for partition in range(partitions):
        start = 0
        several: list[Extent] = []
        for writer_epoch in range(count):
            end = start + seed.randrange(1, 10**9)
            cluster = "east" if (count - writer_epoch) % 2 else "west"
            last = writer_epoch == count - 1
            base = sum(
                earlier.end - earlier.start
                for earlier in several
                if earlier.cluster == cluster and earlier.end is not None
            )
            several.append(
                Extent(cluster=cluster, start=start, end=None if last else end, base=base, writer_epoch=writer_epoch)
            )
            start = end
        extents[partition] = tuple(several)
    return extents


@pytest.mark.parametrize(
    ("topics", "partitions", "producers", "extents"),
    [
        (200, 50, 0, 1),
        (100, 50, 0, 3),
        (3, 1000, 0, 1),
        (1, 1, 0, 1),
        (100, 10, 20, 1),
        (4, 50, 500, 1),
        (300, 3, 2, 1),
    ],
)
def test_preflight_estimates_the_size_of_a_cut_from_above_and_by_at_most_a_factor(
    topics: int, partitions: int, producers: int, extents: int
) -> None:
    takes, expected = a_cut(topics, partitions, producers, extents)

    print(f"{topics} topics, {partitions} partitions, {producers} producers, {extents} extents: {takes}, {expected}")
    assert takes <= expected
    assert expected <= 2.2 * takes


def test_twenty_five_thousand_partitions_move_in_one_revision() -> None:
    takes, _ = a_cut(500, 50, 0)

    assert takes < MAX_REQUEST_BYTES


def test_a_move_too_large_for_one_write_is_refused_by_preflight_with_a_way_out() -> None:
    # Given 45,000 partitions, and a topic with many producers
    names = [f"t{n}" for n in range(900)]
    operation = an_operation(names)
    facts = Facts(
        topics={("east", name): TopicFacts(True, 50, producers=10_000 if name == "t7" else 0) for name in names},
        groups={("east", "g"): GroupFacts("Stable", members=("m",))},
    )
    # When the size of their move is judged
    (verdict,) = too_large(case(operation.request, facts))
    # Then it is an error that names the largest, and fewer topics are none
    assert verdict.level == "error"
    assert "900 topics" in verdict.text
    assert "t7 (0.06 MB)" in verdict.text
    assert "switchyard migrate" in verdict.remedy
    fewer = an_operation(names[:100]).request
    assert list(too_large(case(fewer, facts))) == []


def settled(partitions: int, producers: int) -> tuple[Documents, LastSequences]:
    keys = [("orders", p) for p in range(partitions)]
    operation = a_migration(state="running")
    ends = dict.fromkeys(keys, PartitionEnds(0, 10))
    operation, view = written(propose_change(operation, View(), ["orders"], ends, dict.fromkeys(keys, 20)))
    operation, view = written(open_change(operation, view, ["orders"], ends, {"orders": partitions}), view)
    reached = dict.fromkeys(keys, PartitionEnds(9, 30))
    documents = settle_change(
        operation, view, ["orders"], reached, {"orders": partitions}, producers_of(keys, producers), NOW_MS
    )
    (sequences,) = [put for put in documents.puts if isinstance(put, LastSequences)]
    return documents, sequences


def test_a_crossing_of_fifty_partitions_settles_with_the_sequences_of_thousands_of_producers() -> None:
    documents, sequences = settled(50, 3_000)

    check(documents)
    assert sum(map(len, sequences.partitions.values())) == 150_000
    assert sequences.terms == dict.fromkeys(range(50), 1)


def test_with_more_producers_than_one_write_holds_the_latest_are_kept_and_no_writer_epoch_is_complete() -> None:
    documents, sequences = settled(500, 1_000)

    check(documents)
    assert MAX_TOPIC_SEQUENCES - 500 < sum(map(len, sequences.partitions.values())) <= MAX_TOPIC_SEQUENCES
    assert sequences.terms == {}
    ids = sorted(Random(1).sample(range(10_000), 1_000))
    assert list(sequences.partitions[0]) == [FIRST_CLIENT_ID + number for number in ids[:300]]


def test_the_expected_size_of_a_barrier_batch_includes_the_producers_of_its_topics() -> None:
    assert _bytes(None, Moving(False, {}, 50, 3_000 * 50)) - _bytes(None, Moving(False, {}, 50, 0)) == 900_000
    assert _bytes(None, Moving(False, {}, 400, 10**9)) < REVISION_BYTES
