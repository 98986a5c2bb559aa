"""Produce while a cut is ahead, compared with before and after: equal loads on four topics, in turns.

The states are written to the store as documents, and each topic stays in one of them: a real crossing passes through
the middle two in order, and stays in `above the cut` for about a second, until it is settled.
"""

import contextlib

from bench.figures import BenchOutcome
from bench.ground import ROOT, Say, Scale, change_of, create_topic, direct, up
from bench.paths import Path, SingleRequests, measured
from ha_core.model import Crossing, Extent, Topic
from ha_core.store.zookeeper import connect

FAR = 1 << 40


def _moved(name: str, cut: int, writer: str = "east") -> Topic:
    """A topic that moves from east to west at `cut`; `writer` is west: it has moved."""
    extents = (
        Extent(cluster="east", start=0, end=cut, base=0, writer_epoch=0),
        Extent(cluster="west", start=cut, base=0, writer_epoch=1),
    )
    crossing = Crossing(operation="bench", state="open") if writer == "east" else None
    return Topic(name=name, writer=writer, partitions={0: extents}, crossing=crossing)


BEFORE = "before"
"""A topic without a map."""
STATES = {
    "below the cut": _moved("below", FAR),
    "above the cut": _moved("above", 1),
    "after": _moved("after", 1, "west"),
}
"""State → the document of its topic."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    topics = {BEFORE: BEFORE, **{state: document.name for state, document in STATES.items()}}
    with up(1, say) as stack, contextlib.closing(connect(stack.zookeeper, root=ROOT)) as store:
        for topic in topics.values():
            for cluster in stack.clusters:
                create_topic(direct(stack, cluster), topic, 1)
        store.commit(change_of(store, *STATES.values()))
        pid = int(stack.gateways[0]["pid"])
        paths = [
            Path(state, stack.bootstrap, pid, topic, None if state == BEFORE else BEFORE)
            for state, topic in topics.items()
        ]
        return measured(paths, scale, say, [SingleRequests("produce")])
