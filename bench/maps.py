"""Revisions with many maps: from the call of commit until every gateway serves them.

Ten thousand in one revision, and fifty thousand in as few as ZooKeeper's limit of 1 MB per write allows.
Partitions have different ends, as in a fleet: maps are stored compressed, and repeated ones would take no space.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from bench.cost import cpu_ns
from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import ROOT, Say, Scale, change_of, until_served, up
from ha_core.model import Extent, Topic
from ha_core.store.documents import to_bytes
from ha_core.store.paths import path_of
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect

GATEWAYS = 2
PARTITIONS_PER_TOPIC = 50
MAPS = ((10_000, 10), (50_000, 5))
"""Number of maps at once, and of repetitions."""
QUICK_MAPS = ((1_000, 2), (20_000, 1))
REVISION_BYTES = 950_000
NODE_BYTES = 150
"""Bytes of a revision per topic, besides its map and its path in the node and in the note."""


class _Taken(NamedTuple):
    revisions: int
    committed_s: float
    served_s: float
    gateway_cpu_s: float


def run(scale: Scale, say: Say) -> BenchOutcome:
    found = []
    with up(GATEWAYS, say) as stack, contextlib.closing(connect(stack.zookeeper, root=ROOT)) as store:
        pids = [int(gateway["pid"]) for gateway in stack.gateways]
        for maps, rounds in QUICK_MAPS if scale.quick else MAPS:
            say(f"{rounds} times {maps:,} maps, {PARTITIONS_PER_TOPIC} partitions a topic")
            taken = [_one(store, pids, maps, Random(scale.seed + n)) for n in range(rounds)]
            found.append(_measured(maps, taken))
    return BenchOutcome(
        {"unit": "ms", "measured": [figures for figures, _ in found]}, tuple(table for _, table in found)
    )


def _measured(maps: int, taken: Sequence[_Taken]) -> tuple[dict[str, object], FigureTable]:
    revisions = max(one.revisions for one in taken)
    times = {
        "committed": spread([one.committed_s * 1e3 for one in taken]),
        "served": spread([one.served_s * 1e3 for one in taken]),
        "gateway_cpu": spread([one.gateway_cpu_s * 1e3 for one in taken]),
    }
    words = ("until commit has returned", f"until all {GATEWAYS} gateways serve it", "CPU of each gateway")
    rows = tuple(
        (what, *(f"{one[key]:.0f}" for key in ("p50", "p99", "max")))
        for what, one in zip(words, times.values(), strict=True)
    )
    topics = maps // PARTITIONS_PER_TOPIC
    where = "One revision" if revisions == 1 else f"{revisions} revisions"
    title = f"{where} with {maps:,} maps ({topics:,} topics of {PARTITIONS_PER_TOPIC} partitions), {len(taken)} times"
    return {"maps": maps, "revisions": revisions, **times}, FigureTable(title, ("", "p50 ms", "p99 ms", "max ms"), rows)


def _one(store: Store, pids: Sequence[int], maps: int, seed: Random) -> _Taken:
    """Write the maps, and wait until every gateway reports the last revision."""
    topics = [_mapped(number, seed) for number in range(maps // PARTITIONS_PER_TOPIC)]
    changes = [change_of(store, *some) for some in _as_few_as_fit(topics)]
    spent = cpu_ns(pids)
    begun = time.monotonic()
    revision = [store.commit(change) for change in changes][-1]
    committed = time.monotonic() - begun
    until_served(store, revision)
    served = time.monotonic() - begun
    return _Taken(len(changes), committed, served, (cpu_ns(pids) - spent) / 1e9 / len(pids))


def _mapped(number: int, seed: Random) -> Topic:
    partitions: dict[int, tuple[Extent, ...]] = {}
    for partition in range(PARTITIONS_PER_TOPIC):
        cut, base = seed.randrange(10**6, 10**11), seed.randrange(10**11)
        partitions[partition] = (
            Extent(cluster="east", start=0, end=cut, base=0, writer_epoch=0),
            Extent(cluster="west", start=cut, base=base, writer_epoch=1),
        )
    return Topic(name=f"mapped-{number}", writer="west", partitions=partitions)


def _as_few_as_fit(topics: Sequence[Topic]) -> Iterator[list[Topic]]:
    some: list[Topic] = []
    size = 0
    for topic in topics:
        more = len(to_bytes(topic)) + 2 * len(path_of(Topic, topic.name)) + NODE_BYTES
        if some and size + more > REVISION_BYTES:
            yield some
            some, size = [], 0
        some.append(topic)
        size += more
    yield some
