"""Cost of throttling per request, and throughput of throttled clients compared with their quota."""

import contextlib
import time
from collections.abc import Mapping
from struct import pack
from typing import Any

from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import ROOT, Say, Scale, create_topic, direct, up
from gateway.model.counts import Counts
from gateway.quotas.charges import Meters
from gateway.session.pending import Passed
from gateway.session.request import Request
from gateway.session.throttling import Throttling
from ha_core.model.quota import Limits, QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas
from ha_core.store.zookeeper import connect
from ha_core.wire import ApiKey, RequestHeader, WireLimits
from ha_core.wire.produce import ProduceScan

GATEWAYS = 3
CLIENTS = 3
TOPIC = "limited"
RATE = 2_000_000
USER = "limited"
WARM_S = 20
_LIMITS: Limits = {QuotaKind.PRODUCE: 1e15, QuotaKind.FETCH: 1e15}
CASES: Mapping[str, Quotas | None] = {
    "no quota at all": None,
    "quotas, none for this client": Quotas({QuotaEntity(f"other-{number}"): _LIMITS for number in range(1000)}),
    "a quota of the user": Quotas({QuotaEntity("alice"): _LIMITS}),
    "a quota of the user in the topic": Quotas({QuotaEntity("alice", None, "orders"): _LIMITS}),
}


def run(scale: Scale, say: Say) -> BenchOutcome:
    rounds, times = scale.pick(15, 3), scale.pick(20_000, 500)
    say(f"{rounds} times {times} requests of each kind")
    costs = {
        f"{api.name.lower()}, {case}": _costs(api, quotas, rounds, times)
        for api in (ApiKey.PRODUCE, ApiKey.FETCH)
        for case, quotas in CASES.items()
    }
    used = _throughput(scale, say)
    rows = tuple((what, f"{one['p50']:.2f}", f"{one['max']:.2f}") for what, one in costs.items())
    title = "What flow control adds to a request and its answer: µs of processor time"
    written = "Written with a quota of 2 MB/s, of which it is"
    shown = tuple((str(gateways), f"{100 * part:.1f} %") for gateways, part in used.items())
    tables = (
        FigureTable(title, ("request", "median", "most"), rows),
        FigureTable(f"{written}; {CLIENTS} producers", ("gateways", "part of the quota"), shown),
    )
    return BenchOutcome({"unit": "us", "costs": costs, "part_of_the_quota": used}, tables)


def _costs(api: ApiKey, quotas: Quotas | None, rounds: int, times: int) -> dict[str, Any]:
    """All calls of a session to `Throttling` for one request and its answer."""
    throttling = Throttling(quotas, Meters(), Counts())
    throttling.enter("alice")
    scan = ProduceScan(1, 1000, None, [(b"orders", 0, 100, 900)], True)
    body = bytearray(pack(">iiii", -1, 500, 1, 50 << 20) + bytes(1000))
    answer = memoryview(bytearray(1000))
    found = []
    for _ in range(rounds):
        began = time.process_time()
        for number in range(times):
            now = number * 0.001
            request = Request(RequestHeader(api, 9, 1, "app", 0), body, 0, len(body), _WIRE)
            pending = Passed(request, reads=(b"orders",))
            if api is ApiKey.PRODUCE:
                throttling.wrote(request, scan, now)
            elif throttling.quotas is not None:
                throttling.cut_fetch(request, pending.reads, now)
            throttling.needs(pending, now)
            if throttling.quotas is not None:
                throttling.begins(pending, answer, 1000, now)
        spent = time.process_time() - began
        began = time.process_time()
        for _number in range(times):
            request = Request(RequestHeader(api, 9, 1, "app", 0), body, 0, len(body), _WIRE)
            pending = Passed(request, reads=(b"orders",))
        found.append((spent - (time.process_time() - began)) / times * 1e6)
    return spread(found)


_WIRE = WireLimits()


def _throughput(scale: Scale, say: Say) -> dict[int, float]:
    from confluent_kafka import Producer

    seconds = float(scale.pick(40, 3))
    warm_s = float(scale.pick(WARM_S, 1))
    used: dict[int, float] = {}
    with up(GATEWAYS, say) as stack, contextlib.closing(connect(stack.zookeeper, root=ROOT)) as store:
        create_topic(direct(stack, "east"), TOPIC, 1)
        for gateways in (1, GATEWAYS):
            user = f"{USER}-{gateways}"
            store.change_quota(QuotaEntity(user), {QuotaKind.PRODUCE: RATE})
            time.sleep(1.0)
            say(f"{CLIENTS} producers of one user, at {gateways} gateways, for {seconds:g} s")
            counted = [0]
            producers = [
                Producer(
                    {
                        "bootstrap.servers": stack.gateways[0]["bootstrap"],
                        # The client id selects the gateway: many are tried until all gateways are used.
                        "client.id": f"HA#{user}#{TOPIC}#{number if gateways > 1 else 0}",
                        "enable.idempotence": True,
                        "queue.buffering.max.kbytes": 8192,
                    }
                )
                for number in range(CLIENTS)
            ]
            used[gateways] = _write(producers, counted, warm_s, seconds) / RATE
    return used


def _write(producers: list[Any], counted: list[int], warm_s: float, seconds: float) -> float:
    """Bytes per second acknowledged after the warm-up."""
    value = b"x" * 10_000

    def acknowledged(error: Any, message: Any) -> None:
        if error is None:
            counted[0] += len(value)

    begun, at = time.monotonic(), 0
    while time.monotonic() - begun < warm_s + seconds:
        if not at and time.monotonic() - begun >= warm_s:
            at, began = counted[0], time.monotonic()
        for producer in producers:
            with contextlib.suppress(BufferError):
                while True:
                    producer.produce(TOPIC, value, on_delivery=acknowledged)
            producer.poll(0.05)
    rate = (counted[0] - at) / (time.monotonic() - began)
    for producer in producers:
        producer.purge()
    return rate
