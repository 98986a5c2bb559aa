"""Time from the commit of a binding or a fence until every gateway enforces it."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from bench import probes
from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import ROOT, BenchError, Say, Scale, change_of, create_topic, direct, until_served, up
from ha_core.model import Document, Fence, Topic, UserBindings
from ha_core.model.identity import ANONYMOUS
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.harness import Stack

GATEWAYS = 2
TIMEOUT_S = 15.0
GROUP = "probe"
TOPIC = "fenced"
QUIET_S = 0.05
MEASURES = ("commit", "reported", "enforced")


def run(scale: Scale, say: Say) -> BenchOutcome:
    rounds = scale.pick(150, 10)
    with up(GATEWAYS, say) as stack, contextlib.closing(connect(stack.zookeeper, root=ROOT)) as store:
        create_topic(direct(stack, "east"), TOPIC, 1)
        say(f"{rounds} changes of a binding, then {rounds} fences set and lifted")
        binding = _bindings(stack, store, rounds)
        fence = _fences(stack, store, rounds)
    figures: dict[str, Any] = {}
    rows = []
    for what, (found, round_trip_ms) in (("binding", binding), ("fence", fence)):
        figures[what] = {"probe_round_trip_ms": round_trip_ms}
        for measure in MEASURES:
            one = figures[what][measure] = spread(found[measure])
            rows.append((what, _WORDS[measure], *(f"{one[key]:.1f}" for key in ("p50", "p99", "max"))))
        rows.append((what, "(round trip of a probe)", f"{round_trip_ms:.1f}", "", ""))
    header = ("change", "until", "p50 ms", "p99 ms", "max ms")
    title = f"Change → enforced by all {GATEWAYS} gateways, from the call of commit: {rounds} changes each"
    return BenchOutcome({"unit": "ms", **figures}, (FigureTable(title, header, tuple(rows)),))


_WORDS = {
    "commit": "commit has returned",
    "reported": "every gateway reports the revision",
    "enforced": "every probe sent is answered by it",
}
Found = dict[str, list[float]]


def _bindings(stack: Stack, store: Store, rounds: int) -> tuple[Found, float]:
    """The user moves from cluster to cluster; the probe asks for the coordinator of a group."""
    places: dict[str, tuple[str, int]] = {}
    for name in stack.clusters:
        store.commit(change_of(store, UserBindings(user=ANONYMOUS, cluster=name)))
        places[name] = _settled_coordinator(stack, tuple(places.values()))
    names = list(stack.clusters)
    with contextlib.ExitStack() as exits:
        watchers = []
        for gateway in stack.gateways:
            connection = exits.enter_context(contextlib.closing(probes.connect(gateway["bootstrap"])))
            watchers.append(exits.enter_context(probes.AnswerWatcher(_coordinator_of(connection))))
        for watcher in watchers:
            watcher.wait_for(places[names[-1]], TIMEOUT_S)
        found: Found = {measure: [] for measure in MEASURES}
        for number in range(rounds):
            name = names[number % len(names)]
            document = UserBindings(user=ANONYMOUS, cluster=name)
            _measure(store, document, watchers, places[name], found)
        trips = [round_trip_s for watcher in watchers for round_trip_s in watcher.round_trips_s]
    return found, median(trips) * 1e3


def _settled_coordinator(stack: Stack, others: tuple[tuple[str, int], ...]) -> tuple[str, int]:
    """The first gateway's answer after a change of the binding, when the cluster has a coordinator."""
    deadline = time.monotonic() + TIMEOUT_S
    with contextlib.closing(probes.connect(stack.gateways[0]["bootstrap"])) as connection:
        while time.monotonic() < deadline:
            place = probes.coordinator(connection, GROUP)
            if place[1] >= 0 and place not in others:
                return place
            time.sleep(0.05)
    raise BenchError(f"the gateway names no coordinator of {GROUP} in the cluster that was just bound")


def _coordinator_of(connection: Any) -> Callable[[], Any]:
    return lambda: probes.coordinator(connection, GROUP)


def _fences(stack: Stack, store: Store, rounds: int) -> tuple[Found, float]:
    """A fence on a topic; the probe produces. Lifting it is not measured, because a refused client waits on purpose."""
    store.commit(change_of(store, UserBindings(user=ANONYMOUS, cluster="east")))
    with contextlib.ExitStack() as exits:
        watchers = []
        for gateway in stack.gateways:
            broker = _own_broker(gateway["bootstrap"])
            connection = exits.enter_context(contextlib.closing(probes.connect(broker)))
            watchers.append(exits.enter_context(probes.AnswerWatcher(_produces(connection))))
        for watcher in watchers:
            watcher.wait_for(True, TIMEOUT_S)
        found: Found = {measure: [] for measure in MEASURES}
        for number in range(rounds):
            fenced = Topic(name=TOPIC, fence=Fence(operation=f"bench-{number}"))
            _measure(store, fenced, watchers, False, found)
            lifted = change_of(store, fenced)
            store.commit(replace(lifted, puts=(), deletes=((Topic, TOPIC),)))
            for watcher in watchers:
                watcher.wait_for(True, TIMEOUT_S)
        trips = [round_trip_s for watcher in watchers for round_trip_s in watcher.round_trips_s]
    return found, median(trips) * 1e3


def _own_broker(gateway: str) -> str:
    return probes.broker_of(gateway, TOPIC)


def _produces(connection: Any) -> Callable[[], Any]:
    return lambda: probes.produces(connection, TOPIC)


def _measure(store: Store, document: Document, watchers: list[probes.AnswerWatcher], answer: Any, found: Found) -> None:
    """Adds the milliseconds of one change to `found`."""
    time.sleep(QUIET_S)
    change = change_of(store, document)
    begun = time.monotonic()
    revision = store.commit(change)
    committed = time.monotonic()
    until_served(store, revision)
    reported = time.monotonic()
    enforced = max(watcher.wait_for(answer, TIMEOUT_S) for watcher in watchers)
    for measure, at in zip(MEASURES, (committed, reported, enforced), strict=True):
        found[measure].append((at - begun) * 1e3)
