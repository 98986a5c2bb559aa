"""One revision with many maps: from the call of commit until every gateway serves it.

As many as fit: ZooKeeper takes about 1 MB in one write, and a topic of 50 partitions with two extents each is 7 kB.
"""

from __future__ import annotations

import contextlib
import time

from bench.figures import Outcome, Table, spread
from bench.ground import ROOT, BenchError, Say, Scale, up
from ha_core.model import Extent, Topic
from ha_core.store import Change, Store, connect
from ha_core.store.change import Key

GATEWAYS = 2
PARTITIONS_PER_TOPIC = 50
MAPS = (7_000, 1_000)
ROUNDS = (10, 2)
TIMEOUT_S = 60.0
POLL_S = 0.002


def run(scale: Scale, say: Say) -> Outcome:
    maps, rounds = scale.pick(*MAPS), scale.pick(*ROUNDS)
    topics = maps // PARTITIONS_PER_TOPIC
    with up(GATEWAYS, say) as stack, contextlib.closing(connect(stack.zookeeper, root=ROOT)) as store:
        say(f"{rounds} revisions of {topics} topics with {PARTITIONS_PER_TOPIC} partitions each")
        taken = [_one(store, topics, cut) for cut in range(1, rounds + 1)]
        assert stack.gateways
    committed = spread([one[0] * 1e3 for one in taken])
    served = spread([one[1] * 1e3 for one in taken])
    rows = tuple(
        (what, *(f"{found[key]:.0f}" for key in ("p50", "p99", "max")))
        for what, found in (("commit has returned", committed), (f"all {GATEWAYS} gateways serve it", served))
    )
    title = f"One revision with {maps:,} maps ({topics} topics of {PARTITIONS_PER_TOPIC} partitions), {rounds} times"
    return Outcome(
        {"unit": "ms", "maps": maps, "committed": committed, "served": served},
        (Table(title, ("until", "p50 ms", "p99 ms", "max ms"), rows),),
    )


def _one(store: Store, topics: int, cut: int) -> tuple[float, float]:
    """Seconds until the commit has returned, and until every gateway reports the revision."""
    extents = (
        Extent(cluster="east", start=0, end=cut, base=0, term=0),
        Extent(cluster="west", start=cut, base=0, term=1),
    )
    documents = tuple(
        Topic(name=f"mapped-{n}", writer="west", partitions=dict.fromkeys(range(PARTITIONS_PER_TOPIC), extents))
        for n in range(topics)
    )
    held = {one.name: store.read(Topic, one.name) for one in documents} if cut > 1 else {}
    expected: dict[Key, int | None] = {
        (Topic, one.name): known[1] if (known := held.get(one.name)) else None for one in documents
    }
    begun = time.monotonic()
    revision = store.commit(Change(change_id=f"bench-maps-{cut}", puts=documents, expected=expected))
    committed = time.monotonic() - begun
    while any(gateway.revision < revision for gateway in store.gateways()):
        if time.monotonic() - begun > TIMEOUT_S:
            raise BenchError(f"not every gateway serves revision {revision} after {TIMEOUT_S:g} s")
        time.sleep(POLL_S)
    return committed, time.monotonic() - begun
