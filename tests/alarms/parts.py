"""Plants a fault in each part of a whole installation and measures when its alarm fires and ends:
`python -m tests.alarms.parts [FAULT…]`. Prometheus scrapes and evaluates as `deploy/prometheus/prometheus.yaml` says.

It prints the rows of the table in `docs/guides/alarms.md`, and records the metrics for `tests/alarms/test_rules.py`.
All faults take three quarters of an hour, ten minutes of planned work included, on which no alarm may fire (`quiet`).
"""

import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stack.errors import StackError
from stack.harness import Stack
from tests.alarms.recording import EVERY_S, RULES, Recording, metrics_of, rules
from tests.kit.prometheus import Prometheus
from tests.kit.running import Run, bind, bootstrap, create_topic, switchyard
from tests.kit.stacks import revive
from tests.kit.waiting import until

BEFORE_S = 15
QUIET_S = 300.0
LOOK_S = 0.25
AFTER_S = 5.0
"""Watched for after the alarm: others may follow."""
LONGEST_S = 120.0
QUIET_MINUTES = 10
WITH_PLATFORM = "platform"


@dataclass(frozen=True)
class PartFault:
    """:ivar part: as `switchyard stack` names it.
    :ivar expected: alarms of which the first to fire is the page.
    """

    part: str
    how: str
    expected: Sequence[str]

    @property
    def name(self) -> str:
        return f"{self.part.replace('/', '_').replace('-', '_')}_{'killed' if self.how == 'kill' else 'paused'}"


def both(part: str, *expected: str) -> tuple[PartFault, PartFault]:
    return PartFault(part, "kill", expected), PartFault(part, "pause", expected)


FAULTS = (
    *both("gateway/2", "GatewayDown"),
    *both("cluster/east/2", "BrokerAway"),
    *both("cluster/west", "ClusterAway"),
    *both("zookeeper/2", "ZooKeeperMemberAway"),
    *both("zookeeper", "GatewayNotReady", "LeaseRunsOut"),
    *both("mirror", "MirrorJobDown"),
    PartFault("mirror/executor", "pause", ("MirrorWorkersAway",)),
    *both("airflow/scheduler", "AirflowPartStands"),
    *both("airflow/dag-processor", "AirflowPartStands"),
    *both("airflow/triggerer", "AirflowPartStands"),
    *both("airflow/api-server", "AirflowDown"),
    *both(WITH_PLATFORM, "PlatformAway"),
)


@dataclass
class Watch:
    """:ivar first: alarm → time at which it was first seen to fire, of those that were seen."""

    prometheus: Prometheus
    first: dict[str, float] = field(default_factory=dict)

    def firing(self) -> set[str]:
        samples = self.prometheus.query('ALERTS{alertstate="firing"}')
        found = {one["metric"]["alertname"].removeprefix("Switchyard") for one in samples}
        for name in found:
            self.first.setdefault(name, time.time())
        return found

    def until(self, wanted: Callable[[set[str]], bool], timeout_s: float) -> float | None:
        """Seconds until the firing alarms are as wanted; None: they were not in time."""
        began = time.monotonic()
        while (now_s := time.monotonic() - began) < timeout_s:
            if wanted(self.firing()):
                return now_s
            time.sleep(LOOK_S)
        return None


@dataclass
class Ground:
    stack: Stack
    prometheus: Prometheus

    def settle(self) -> None:
        watch = Watch(self.prometheus)
        pending = 'ALERTS{alertstate="pending"}'

        def calm() -> bool:
            return not watch.firing() and not self.prometheus.query(pending)

        until(calm, lambda: f"no alarm is left: {watch.firing()}", QUIET_S)


def measured(ground: Ground, fault: PartFault) -> Recording:
    """Plant a fault, print its row, and heal it."""
    ground.settle()
    time.sleep(BEFORE_S)
    watch, expected, began = Watch(ground.prometheus), set(fault.expected), time.time()
    begun = time.monotonic()
    getattr(ground.stack, fault.how)(fault.part)
    try:
        fires_s = watch.until(lambda firing: bool(firing & expected), LONGEST_S)
        watch.until(lambda _: False, AFTER_S)
        now_s, seconds = time.time(), BEFORE_S + int(time.monotonic() - begun)
        names = "|".join(metrics_of(rule["expr"] for rule in rules()))
        found = Recording.of(fault.name, ground.prometheus.samples(f'{{__name__=~"{names}"}}', seconds), now_s, seconds)
        others = {name: at - began for name, at in watch.first.items() if name not in expected}
    finally:
        if fault.how == "kill":
            ground.stack.restart(fault.part)
        else:
            ground.stack.resume(fault.part)
    ends_s = watch.until(lambda firing: not firing & expected, QUIET_S)
    also = ", ".join(f"{name} {at:.0f} s" for name, at in sorted(others.items(), key=lambda one: one[1]))
    words = " | ".join(
        (fault.part, fault.how, ", ".join(sorted(expected & watch.first.keys())), _seconds(fires_s), also or "none")
    )
    print(f"| {words} | {_seconds(ends_s)} |", flush=True)
    return found


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f} s"


def quiet(ground: Ground) -> bool:
    """Whether no alarm fires on a switch there and back, a new mirror, and a rolling restart of the gateways."""
    ground.settle()
    stack, watch, until_s = ground.stack, Watch(ground.prometheus), time.monotonic() + 60 * QUIET_MINUTES
    create_topic(bootstrap(stack, "east"), "later")
    there, back = ("--from", "east", "--to", "west"), ("--from", "west", "--to", "east")
    more = ("--reason", "planned", "--yes")
    works: Sequence[Callable[[], object]] = (
        lambda: switchyard(stack, "switch", "user:plain", *there, *more),
        lambda: switchyard(stack, "mirror", "link", "later", *there, *more),
        lambda: stack.restart("gateway/1"),
        lambda: stack.restart("gateway/2"),
        lambda: switchyard(stack, "switch", "user:plain", *back, *more),
    )
    pause_s = 60 * QUIET_MINUTES / (len(works) + 1)
    for work in works:
        watch.until(lambda _: False, pause_s)
        work()
    watch.until(lambda _: False, max(0.0, until_s - time.monotonic()))
    print(f"{QUIET_MINUTES} minutes of planned work: {', '.join(watch.first) or 'no alarm'}", flush=True)
    return not watch.first


@contextmanager
def laid(folder: Path, airflow: bool) -> Iterator[Ground]:
    """Two gateways, three members of ZooKeeper, a cluster of three brokers and one of one, mirrors, and Airflow."""
    with ExitStack() as opened:
        clusters = {"east": "4.3.1x3", "west": "3.9.2"}
        options: dict[str, Any] = {
            "gateways": 2,
            "zookeepers": 3,
            "mirror": True,
            "airflow": airflow,
            "record_facts_s": 10,
        }
        stack = opened.enter_context(Stack.up(clusters, **options))
        for topic in ("plain", "mirrored"):
            create_topic(bootstrap(stack, "east"), topic)
            bind(stack, topic, "east")
        way = ("--from", "east", "--to", "west", "--reason", "drill", "--yes")
        switchyard(stack, "mirror", "link", "plain", "mirrored", *way)  # a topic without a copy is a difference
        for topic in ("plain", "mirrored"):
            run = Run(stack, folder / topic, user=topic)
            opened.callback(run.end)
            run.start("confluent-producer", "w", topic, rate=20, idempotence="on")
            run.start("confluent-consumer", "r", topic, group=topic)
        assert stack.mirror is not None
        targets = _gateways(stack) | {"switchyard-mirror": [stack.mirror["metrics"]]}
        if stack.airflow is not None:
            targets["switchyard-airflow"] = [stack.airflow["url"].removeprefix("http://")]
        yield Ground(stack, opened.enter_context(_prometheus(folder, targets)))


@contextmanager
def laid_with_platform(folder: Path) -> Iterator[Ground]:
    """Gateways that take users and rights from a platform."""
    with ExitStack() as opened:
        options: dict[str, Any] = {"gateways": 2, "platform": True, "security": "sasl", "record_facts_s": 10}
        stack = opened.enter_context(Stack.up({"east": "4.3.1"}, **options))
        assert stack.platform is not None
        targets = _gateways(stack) | {"switchyard-platform": [stack.platform["url"].removeprefix("http://")]}
        yield Ground(stack, opened.enter_context(_prometheus(folder, targets)))


def _gateways(stack: Stack) -> dict[str, list[str]]:
    return {"switchyard-gateway": [one["http"].removeprefix("http://") for one in stack.gateways]}


def _prometheus(folder: Path, targets: dict[str, list[str]]) -> Prometheus:
    return Prometheus(
        folder / "prometheus", targets, EVERY_S, RULES, paths={"switchyard-airflow": "/switchyard/metrics"}
    )


def main(names: list[str]) -> int:
    wanted = [fault for fault in FAULTS if not names or fault.name in names]
    first = [fault for fault in wanted if fault.part != WITH_PLATFORM]
    grounds = (
        (
            partial(laid, airflow=any(one.part.startswith("airflow") for one in first)),
            first,
            not names or "quiet" in names,
        ),
        (laid_with_platform, [fault for fault in wanted if fault not in first], False),
    )
    failed = []
    for lay, faults, with_quiet in grounds:
        if not faults and not with_quiet:
            continue
        with tempfile.TemporaryDirectory(prefix="switchyard-alarms-") as folder, lay(Path(folder)) as ground:
            for fault in faults:
                try:
                    measured(ground, fault).write()
                except Exception:
                    traceback.print_exc()
                    failed.append(fault.name)
                    with suppress(StackError):  # the next fault waits until all is calm
                        revive(ground.stack, "zookeeper", "cluster", "gateway", "mirror", "airflow", "platform")
            try:
                if with_quiet and not quiet(ground):
                    failed.append("quiet")
            except Exception:
                traceback.print_exc()
                failed.append("quiet")
    print(f"failed: {', '.join(failed) or 'none'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
