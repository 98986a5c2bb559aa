"""Memory of a gateway: at start, per idle client connection without and with TLS, and per mapped partition."""

import contextlib
import tempfile
import time
from pathlib import Path

from bench import probes
from bench.cost import private_bytes, rss_bytes
from bench.figures import BenchOutcome, FigureTable, slope
from bench.ground import ROOT, BenchError, Say, Scale, change_of, create_topic, direct, until_served, up
from bench.tls_sides import speak_tls
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.model import Extent, Topic
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from ha_core.wire.codes import ApiKey
from stack.certificates import Authority
from stack.harness import Stack
from stack.parts import LOOPBACK

TOPIC = "plain"
PARTITIONS_PER_TOPIC = 100
TOPICS_PER_REVISION = 20
SETTLE_S = 1.5
TIMEOUT_S = 30.0


def run(scale: Scale, say: Say) -> BenchOutcome:
    connections = scale.pick(1000, 200)
    partitions = scale.pick(20_000, 4_000)
    with up(1, say) as stack, contextlib.closing(connect(stack.zookeeper, root=ROOT)) as store:
        create_topic(direct(stack, "east"), TOPIC, 1)
        pid = _fresh(stack)
        empty, resident = private_bytes(pid), rss_bytes([pid])
        say(f"{connections} connections, then as many that have asked a broker something")
        idle, linked = (_connections(stack, asks, connections) for asks in (False, True))
        say(f"{partitions} mapped partitions of two extents each")
        mapped = slope(_maps(store, _fresh(stack), partitions))
        say(f"{connections} connections with TLS")
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(Path(folder))
            speak_tls(stack, authority.issue("gateway", (LOOPBACK, "localhost")))
            enciphered = _connections(stack, False, connections, str(authority.file))
    figures = {
        "unit": "bytes",
        "gateway_at_start": empty,
        "resident_at_start": resident,
        "idle_connection": idle,
        "idle_connection_with_tls": enciphered,
        "connection_with_upstream": linked,
        "mapped_partition": mapped,
    }
    over = f"{connections // 10} → {connections}"
    rows = (
        ("the process at its start", f"{empty / 2**20:.1f} MiB", f"{resident / 1e6:.1f} MB with code that is shared"),
        (
            "idle connection",
            f"{idle:,.0f} bytes",
            f"{over}, versions asked for and nothing else",
        ),
        ("idle connection with TLS", f"{enciphered:,.0f} bytes", f"{over}, the same"),
        (
            "connection with a broker of its own",
            f"{linked:,.0f} bytes",
            f"{over}, one ListOffsets each",
        ),
        ("mapped partition, two extents", f"{mapped:,.0f} bytes", f"{partitions // 2} → {partitions}"),
    )
    header = ("of one gateway", "private memory", "measured over")
    return BenchOutcome(figures, (FigureTable("Memory (without the kernel's socket buffers)", header, rows),))


def _fresh(stack: Stack) -> int:
    """The pid of an unused gateway: otherwise memory that an earlier measurement freed would be reused."""
    stack.restart("gateway/1")
    time.sleep(SETTLE_S)
    return int(stack.gateways[0]["pid"])


def _connections(stack: Stack, asks: bool, count: int, ca_file: str | None = None) -> float:
    """Private bytes per connection, from a tenth of `count` to all: one-time allocations do not count."""
    pid = _fresh(stack)
    bootstrap = stack.gateways[0]["bootstrap"]
    broker = probes.broker_of(bootstrap, TOPIC, ca_file)
    points: list[tuple[float, float]] = []
    with contextlib.ExitStack() as held:
        opened = 0
        for wanted in (count // 10, count):
            _open(held, broker if asks else bootstrap, asks, wanted - opened, ca_file)
            opened = wanted
            time.sleep(SETTLE_S)
            points.append((wanted, private_bytes(pid)))
    return slope(points)


def _open(held: contextlib.ExitStack, address: str, asks: bool, count: int, ca_file: str | None) -> None:
    for _ in range(count):
        connection = held.enter_context(contextlib.closing(probes.connect(address, ca_file)))
        if asks:
            _ask(connection)


def _ask(connection: BlockingConnection) -> None:
    partition = {"partition_index": 0, "timestamp": -1}
    request = {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [partition]}]}
    connection.until = Deadline.after(TIMEOUT_S)
    answer = connection.call(ApiKey.LIST_OFFSETS, request, max_version=5)
    error = answer["topics"][0]["partitions"][0]["error_code"]
    if error:
        raise BenchError(f"ListOffsets of {TOPIC} at {connection.address} was answered {error}")


def _maps(store: Store, pid: int, partitions: int) -> list[tuple[float, float]]:
    """(mapped partitions, private bytes) at half of them and at all: one-time allocations do not count."""
    extents = (
        Extent(cluster="east", start=0, end=1_000_000, base=0, writer_epoch=0),
        Extent(cluster="west", start=1_000_000, base=0, writer_epoch=1),
    )
    points: list[tuple[float, float]] = []
    topics = partitions // PARTITIONS_PER_TOPIC
    for first in range(0, topics, TOPICS_PER_REVISION):
        numbers = range(first, min(topics, first + TOPICS_PER_REVISION))
        documents = tuple(
            Topic(name=f"mapped-{n}", writer="west", partitions=dict.fromkeys(range(PARTITIONS_PER_TOPIC), extents))
            for n in numbers
        )
        until_served(store, store.commit(change_of(store, *documents)))
        done = (numbers[-1] + 1) * PARTITIONS_PER_TOPIC
        if done in (partitions // 2, partitions):
            time.sleep(SETTLE_S)
            points.append((done, private_bytes(pid)))
    return points
