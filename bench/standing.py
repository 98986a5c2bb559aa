"""Longest blocking of the gateway's event loop by one event, with ten thousand connections and fifty thousand maps.

The gateway runs in this process, on a store in memory, with uvloop as always; its clients and clusters are other
processes. Each turn of the loop is timed: by the clock, which other processes lengthen, and by this process's CPU time,
which they do not. The latter counts other threads, as they hold the interpreter, and too much of them when they release
it. The CPU time of the loop's thread excludes them: it is the delay that a long request causes to all other
connections.
"""

import asyncio
import contextlib
import gc
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import uvloop
import yaml

from bench.figures import BenchOutcome, FigureTable
from bench.ground import BenchError, Say, Scale, change_of
from bench.long_requests import names as long_requests
from bench.long_requests import rules
from gateway.config import Config, load
from gateway.process.gateway import Gateway
from gateway.runtime import descriptors, gc_policy
from gateway.runtime.offload import SWITCH_S
from ha_core.model import Cluster, Extent, Fence, Topic
from ha_core.plan.access.rights import Rights
from stack.memory_store import MemoryStore

CONNECTIONS, WAITING, MAPS = 9_000, 1_000, 50_000
QUICK = 300, 100, 2_000
MAX_IN_ONE = 2_000
"""Topics in a revision; ZooKeeper accepts some 3,800 of one partition."""
ROUNDS = 5
CLUSTERS = ("east", "west")


class _Turn(NamedTuple):
    wall_s: float
    cpu_s: float
    own_s: float
    """CPU time of the loop's thread."""


class Turns:
    """Times every turn of the loop during a measurement. While it runs, no turn waits for events."""

    def __init__(self) -> None:
        self.longest = _Turn(0.0, 0.0, 0.0)
        self.count = 0

    async def watch(self) -> None:
        wall, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
        while True:
            await asyncio.sleep(0)
            now, used, mine = time.perf_counter(), time.process_time(), time.thread_time()
            turn = _Turn(now - wall, used - cpu, mine - own)
            self.longest = _Turn(*map(max, self.longest, turn))
            self.count += 1
            wall, cpu, own = now, used, mine


def run(scale: Scale, say: Say) -> BenchOutcome:
    before, searches = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_S)
    gc_policy.exempt_old_objects()
    try:
        return uvloop.run(_run(scale, say))
    finally:
        sys.setswitchinterval(before)
        gc.set_threshold(*searches)


async def _run(scale: Scale, say: Say) -> BenchOutcome:
    idle, waiting, maps = QUICK if scale.quick else (CONNECTIONS, WAITING, MAPS)
    may_open = descriptors.raised()
    wanted, (idle, waiting) = (idle, waiting), fitting(idle, waiting, may_open)
    if (idle, waiting) != wanted:
        say(
            f"this process may open {may_open:,} files, so {idle + waiting:,} clients connect and not {sum(wanted):,}; "
            f"raise its hard limit (ulimit -Hn) to {_needed(*wanted):,}"
        )
    store = MemoryStore()
    with contextlib.ExitStack() as ends:
        say(f"two clusters of paper with {maps:,} topics, and a gateway with a map for each")
        brokers = {name: ends.enter_context(_process("bench.paper_broker", str(maps))) for name in CLUSTERS}
        ports = {name: int(await _line(broker)) for name, broker in brokers.items()}
        _commit(store, *(Cluster(name=n, bootstrap=f"127.0.0.1:{p}", default=n == "east") for n, p in ports.items()))
        for first in range(0, maps, MAX_IN_ONE):
            _commit(store, *(_mapped(number) for number in range(first, min(first + MAX_IN_ONE, maps))))
        config = _config(Path(ends.enter_context(tempfile.TemporaryDirectory())) / "gateway.yaml")
        gateway = Gateway(config, store, "bench")
        # No other process uses this store.
        caretaker = gateway.members.caretaker
        caretaker.command, caretaker.silent_s = ("sleep", "infinity"), 3600
        await gateway.start()
        gateway.clients.max_connections = config.limits.max_connections  # few of these connections need two descriptors
        try:
            await gateway.upstream.refresh()
            node = (await gateway.nodes.ensure([("east", 1)]))["east", 1].port
            say(f"{idle:,} idle clients and {waiting:,} that wait for records")
            numbers = map(str, (config.listen.port, node, idle, waiting))
            clients = ends.enter_context(_process("bench.paper_clients", *numbers))
            await _line(clients)
            async with asyncio.timeout(60):
                while len(gateway.clients.open) < idle + waiting:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            events = _events(gateway, store, brokers["east"], clients)
            rounds = scale.pick(ROUNDS, 1)
            found = {}
            for name, event in events.items():
                say(name)
                found[name] = [await _measured(event, number) for number in range(rounds)]
        finally:
            await gateway.stop()
    return _outcome(found, idle, waiting, maps)


def fitting(idle: int, waiting: int, may_open: int) -> tuple[int, int]:
    """As many of these connections as the gateway can have with this number of open files, in their proportion."""
    part = min(1.0, (may_open - descriptors.RESERVED) / (_needed(idle, waiting) - descriptors.RESERVED))
    if part <= 0:
        raise BenchError(f"{may_open} open files are too few: raise the hard limit (ulimit -Hn)")
    return int(idle * part), int(waiting * part)


def _needed(idle: int, waiting: int) -> int:
    """Open files of the gateway: one for each client, and one more for the broker of each that waits for records."""
    return idle + 2 * waiting + descriptors.RESERVED


def _events(
    gateway: Gateway, store: MemoryStore, broker: subprocess.Popen[str], clients: subprocess.Popen[str]
) -> dict[str, Callable[[int], Awaitable[None]]]:
    async def follows() -> None:
        revision = await asyncio.to_thread(store.confirm)
        async with asyncio.timeout(60):
            while gateway.snapshot.view.revision < revision or not gateway.following.done:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def nothing(_: int) -> None:
        await asyncio.sleep(1)

    async def one_fence(number: int) -> None:
        await asyncio.to_thread(_commit, store, _mapped(0, fence=Fence(operation=f"op-{number}")))
        await follows()

    async def everybodys_fence(number: int) -> None:
        fenced = (_mapped(n, fence=Fence(operation=f"all-{number}")) for n in range(MAX_IN_ONE))
        await asyncio.to_thread(_commit, store, *fenced)
        await follows()

    async def everybody_moves(number: int) -> None:
        await asyncio.to_thread(_commit, store, *(_mapped(n, cut=1_000 + number) for n in range(MAX_IN_ONE)))
        await follows()

    async def a_leader(_: int) -> None:
        before = gateway.snapshot.topology
        await _ask(broker, "")
        gateway.upstream.refresh_soon()
        async with asyncio.timeout(60):
            while gateway.snapshot.topology is before or not gateway.following.done:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def asked_once(_: int) -> None:
        await _ask(clients, "1")

    async def asked_by_twenty(_: int) -> None:
        await _ask(clients, "20")

    async def asked_anew(number: int) -> None:
        await one_fence(number)
        await _ask(clients, "20")

    def a_long_request(name: str) -> Callable[[int], Awaitable[None]]:
        async def sent(number: int) -> None:
            # Rights are in force for this event only: they would change the other events' topic lists. In turn, all
            # names and half of them are denied.
            gateway.follow_rights(Rights((), rules(own=number % 2 == 1)))
            try:
                await _ask(clients, name)
            finally:
                gateway.snapshot = replace(gateway.snapshot, rights=None)

        return sent

    return {
        "nothing happens": nothing,
        "a fence on one topic": one_fence,
        f"a fence on {MAX_IN_ONE:,} topics, those that are waited at too": everybodys_fence,
        f"{MAX_IN_ONE:,} topics move": everybody_moves,
        "a leader changes": a_leader,
        "all topics are asked for after a revision, by 20 clients at once": asked_anew,
        "all topics are asked for again": asked_once,
        "all topics are asked for again, by 20 clients at once": asked_by_twenty,
        **{f"the largest request: {name}": a_long_request(name) for name in long_requests()},
    }


async def _measured(event: Callable[[int], Awaitable[None]], number: int) -> tuple[_Turn, float]:
    turns = Turns()
    watching = asyncio.create_task(turns.watch())
    begun = time.perf_counter()
    await event(number)
    took_s = time.perf_counter() - begun
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return turns.longest, took_s


def _outcome(found: dict[str, list[tuple[_Turn, float]]], idle: int, waiting: int, maps: int) -> BenchOutcome:
    rows = []
    figures = {}
    for name, measured in found.items():
        cpu_ms = sorted(turn.cpu_s * 1e3 for turn, _ in measured)
        own_ms = sorted(turn.own_s * 1e3 for turn, _ in measured)
        wall_ms = sorted(turn.wall_s * 1e3 for turn, _ in measured)
        took_ms = sorted(took * 1e3 for _, took in measured)
        middle = len(measured) // 2
        most = (own_ms[-1], cpu_ms[-1], wall_ms[middle], wall_ms[-1])
        rows.append((name, *(f"{ms:.1f}" for ms in most), f"{took_ms[middle]:.0f}"))
        figures[name] = {"own_ms": own_ms, "cpu_ms": cpu_ms, "wall_ms": wall_ms, "took_ms": took_ms}
    title = f"Longest turn of the loop: {idle + waiting:,} connections, {maps:,} maps, {len(measured)} rounds"
    clock = ("clock ms, p50", "clock ms, max", "until all is done ms, p50")
    header = ("event", "CPU ms of the loop, max", "CPU ms, max", *clock)
    return BenchOutcome(figures, (FigureTable(title, header, tuple(rows)),))


def _mapped(number: int, cut: int = 1_000, fence: Fence | None = None) -> Topic:
    extents = (
        Extent(cluster="west", start=0, end=cut, base=0, writer_epoch=0),
        Extent(cluster="east", start=cut, base=0, writer_epoch=1),
    )
    return Topic(name=f"topic-{number}", writer="east", partitions={0: extents}, fence=fence)


def _commit(store: MemoryStore, *documents: Cluster | Topic) -> None:
    store.commit(change_of(store, *documents))


def _config(file: Path) -> Config:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    document = {
        "id": "bench",
        "zookeeper": {"hosts": "nowhere:1", "lease_ms": 60_000, "session_timeout_ms": 90_000},
        "listen": {"port": port},
        "nodes": {"first_port": 10_000 + port % 20_000, "count": 10},
        "authentication": {"anonymous": True},
        "security_profiles": {"none": {}},
        "limits": {"max_connections": 20_000},
        "record_facts_s": 0,
    }
    file.write_text(yaml.safe_dump(document))
    return load(file)


@contextlib.contextmanager
def _process(module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def _line(process: subprocess.Popen[str]) -> str:
    if process.stdout is None:
        raise BenchError("a process without its output")
    line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 300)
    if not line:
        raise BenchError(f"{process.args!r} has ended")
    return line.strip()


async def _ask(process: subprocess.Popen[str], text: str) -> None:
    if process.stdin is None:
        raise BenchError("a process without its input")
    process.stdin.write(text + "\n")
    process.stdin.flush()
    await _line(process)
