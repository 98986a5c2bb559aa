"""Time of a sync of groups' offsets: client offsets carried as they are, against direct groups that are translated."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.figures import BenchOutcome, FigureTable, number
from bench.ground import ROOT, BenchError, Say, Scale, create_topic, direct, load, up
from ha_core.flows.translation import by_runs
from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.copying import Copying
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.known_map import RunTable
from ha_core.model import Cluster, DirectGroups, Document, Mirror, Run, UserBindings
from ha_core.operations.copies.syncing.groups import Memory
from ha_core.operations.copies.syncing.passes import sync
from ha_core.store.commits import StateChange, key_of
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.harness import Stack

TOPIC, GROUPS = "orders", 20
RECORDS = 20
"""Records of each partition that are added before each kind of pass."""
IDLE_S = 8.0
"""After this time without records copiers have written their progress."""
LIMIT_S = 300.0
MAP_RUNS = 1_000_000
Clusters = tuple[Admin, Admin]


def run(scale: Scale, say: Say) -> BenchOutcome:
    partitions = scale.pick(1_000, 50)
    times_ms: dict[str, dict[str, float]] = {}
    with up(0, say) as stack, _admins(stack) as clusters:
        store = connect(stack.zookeeper, root=ROOT)
        try:
            mirror = Mirror.of(TOPIC, "east", "west", "bench-1", "2026-01-01T00:00:00Z", "bench")
            ensure_copy_log(clusters[1], mirror.log, mirror.log_partitions)
            for bootstrap in (direct(stack, "east"), direct(stack, "west")):
                create_topic(bootstrap, TOPIC, partitions)
            _put(store, mirror, [f"report-{n}" for n in range(GROUPS)])
            with _copying(clusters, mirror, partitions) as loop:
                for kind in ("till", "report"):
                    say(f"{GROUPS} groups {kind}-N on {partitions} partitions")
                    times_ms[kind] = _measured(stack, store, clusters, loop, partitions, kind, scale.seed)
        finally:
            store.close()
    table_us, table_bytes = _lookup()
    shown = {"first": "first pass", "quiet": "nothing has changed", "moved": "all commits and copies have moved"}
    rows = tuple(
        (words, *(number(times_ms[kind][step]) for kind in ("till", "report"))) for step, words in shown.items()
    )
    header = ("pass", "client offsets, ms", "translated, ms")
    title = f"Sync of {GROUPS} groups on {partitions:,} partitions"
    remark = (
        f"A place in a map of {MAP_RUNS:,} runs is found in {number(table_us)} µs; the map takes "
        f"{number(table_bytes / MAP_RUNS)} bytes for each run."
    )
    figures = {"partitions": partitions, "groups": GROUPS, "ms": times_ms, "lookup_us": table_us}
    return BenchOutcome(figures, (FigureTable(title, header, rows),), (remark,))


def _measured(
    stack: Stack, store: Store, clusters: Clusters, loop: Copying, partitions: int, kind: str, seed: int
) -> dict[str, float]:
    memory = Memory()

    def passed() -> None:
        found = sync(store, clusters, "groups", "2026-01-01T00:00:00.000Z", memory, copies=True)
        wrong = [finding for finding in found.findings if f"group {kind}-" in finding.about and kind == "report"]
        if wrong:
            raise BenchError(f"{len(wrong)} groups are not in sync: {wrong[0].reason}")

    _grow(stack, clusters, loop, partitions, kind, seed)
    times = {"first": _ms(passed), "quiet": min(_ms(passed) for _ in range(3))}
    _grow(stack, clusters, loop, partitions, kind, seed)
    times["moved"] = _ms(passed)
    _forget(clusters, partitions, kind)
    return times


def _grow(stack: Stack, clusters: Clusters, loop: Copying, partitions: int, kind: str, seed: int) -> None:
    """Each partition gets records, which are copied, and each group commits its end."""
    settings = {"enable.idempotence": False, "linger.ms": 50}
    where = {"bootstrap": direct(stack, "east"), "topic": TOPIC, "partitions": partitions}
    load("produce", LIMIT_S, **where, records=partitions * RECORDS, record_bytes=20, seed=seed, settings=settings)
    keys = [(TOPIC, partition) for partition in range(partitions)]
    ends = {key: one.log_end for key, one in clusters[0].ends(keys).items()}
    until = time.monotonic() + LIMIT_S
    while not all(one.has(ends[id_.topic, id_.partition]) for id_, one in loop.statuses().items()):
        if time.monotonic() > until:
            raise BenchError(f"not all partitions are copied after {LIMIT_S:.0f} s")
        time.sleep(0.5)
    for n in range(GROUPS):
        wanted = {key: (end - n % 7, "") for key, end in ends.items()}
        clusters[0].set_group_offsets(f"{kind}-{n}", wanted, timeout_s=60)
    time.sleep(IDLE_S)


def _forget(clusters: Clusters, partitions: int, kind: str) -> None:
    keys = [(TOPIC, partition) for partition in range(partitions)]
    for n in range(GROUPS):
        clusters[0].delete_group_offsets(f"{kind}-{n}", keys, lambda: None, timeout_s=60)


def _ms(work: Callable[[], None]) -> float:
    begun = time.monotonic()
    work()
    return (time.monotonic() - begun) * 1000


def _lookup() -> tuple[float, int]:
    """Microseconds of a translation by a long map, and the bytes that it takes."""
    table = RunTable(Run(3 * n, 2 * n, 2) for n in range(MAP_RUNS))
    offsets = range(0, 3 * MAP_RUNS, 3 * MAP_RUNS // 10_000)
    begun = time.process_time()
    for offset in offsets:
        by_runs(table, offset)
    return (time.process_time() - begun) / len(offsets) * 1e6, table.bytes


def _put(store: Store, mirror: Mirror, direct_groups: list[str]) -> None:
    """Groups `till-N` are bound, so gateways know them."""
    bound = UserBindings(user="bench", groups={f"till-{n}": "east" for n in range(GROUPS)})
    direct = [DirectGroups(pattern=name, since=mirror.since, by="bench") for name in direct_groups]
    puts: list[Document] = [mirror, bound, *direct]
    store.commit(StateChange(change_id="bench", puts=tuple(puts), expected={key_of(one): None for one in puts}))


@contextmanager
def _admins(stack: Stack) -> Iterator[Clusters]:
    east, west = (Cluster(name=name, bootstrap=direct(stack, name)) for name in ("east", "west"))
    with Admin(east) as source, Admin(west) as target:
        yield source, target


@contextmanager
def _copying(clusters: Clusters, mirror: Mirror, partitions: int) -> Iterator[Copying]:
    """The loop of the job, without its reports."""
    with Admin(clusters[0].cluster) as source, Admin(clusters[1].cluster) as target:
        loop = Copying(source, target, copies_of(mirror, partitions))
        thread = threading.Thread(target=loop.run, daemon=True)
        thread.start()
        try:
            yield loop
        finally:
            loop.stop()
            thread.join(30)
