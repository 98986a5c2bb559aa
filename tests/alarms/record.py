"""Records what Prometheus sees of real faults: `python -m tests.alarms.record [FAULT…]`. It takes a quarter of an hour.

`tests/alarms/test_rules.py` plays the recordings to the rules of `deploy/prometheus`. Record anew when a rule uses a
metric that the recordings do not have, or when a metric has changed.
"""

import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer

from ha_core.model import Fence, Topic, WaitingApproval
from ha_core.store.commits import StateChange
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.certificates import Authority
from stack.harness import Stack
from stack.processes import descendants
from tests.alarms.recording import EVERY_S, Recording, metrics_of, rules
from tests.kit.operations import a_switch
from tests.kit.own_gateway import OwnGateway
from tests.kit.prometheus import Prometheus
from tests.kit.running import ZOOKEEPER_ROOT, Run, bind, bootstrap, create_topic, switchyard
from tests.kit.stacks import TWO_CLUSTERS
from tests.kit.waiting import until
from tests.store.fault_proxy import FaultProxy

BEFORE_S = 30
"""Recorded before a fault begins."""
HEALED_S = 300.0
RATE = 50
CERTIFICATE_DAYS = 5


@dataclass
class Ground:
    """
    :ivar odd: a gateway of its own with two workers, a certificate that ends soon, logins, and room for few clients.
    :ivar apart: a gateway whose way to ZooKeeper goes through `proxy`.
    """

    stack: Stack
    prometheus: Prometheus
    store: Store
    folder: Path
    odd: OwnGateway
    apart: OwnGateway
    proxy: FaultProxy
    authority: Authority

    def problems(self) -> set[str]:
        return {one["metric"]["code"] for one in self.prometheus.query("switchyard_problems")}

    def value(self, expression: str) -> float | None:
        found = self.prometheus.query(expression)
        return float(found[0]["value"][1]) if found else None

    def shows(self, expression: str, timeout_s: float = HEALED_S) -> None:
        """Wait until an expression has a sample."""
        until(lambda: bool(self.prometheus.query(expression)), expression, timeout_s)

    def quiet(self) -> None:
        """Wait until nothing is left of earlier faults."""
        self.shows("min(up) == 1")
        self.shows("min(switchyard_gateway_ready) == 1 and min(switchyard_gateway_cluster_reachable) == 1")
        self.shows("max(switchyard_mirror_leads) == 1 and sum(switchyard_mirror_unknown_lag_partitions) == 0")
        self.shows("max(switchyard_mirror_longest_rpo_seconds) < 20")
        self.shows("absent(switchyard_approvals_oldest_seconds)")
        until(lambda: not self.problems() and self.seen(), "no problem is left", HEALED_S)

    def seen(self) -> bool:
        at = self.value("max(switchyard_state_looked_timestamp_seconds)")
        return at is not None and time.time() - at < 60


Fault = Callable[[Ground], Iterator[int]]
"""Begins the fault, yields for how long it is recorded, and heals it."""


def normal(ground: Ground) -> Iterator[int]:
    yield 90


def gateway_killed(ground: Ground) -> Iterator[int]:
    ground.stack.kill("gateway/2")
    yield 60
    ground.stack.restart("gateway/2")


def gateway_paused(ground: Ground) -> Iterator[int]:
    ground.stack.pause("gateway/2")
    yield 60
    ground.stack.resume("gateway/2")


def gateway_starved(ground: Ground) -> Iterator[int]:
    """It gets the processor for a quarter of the time."""
    pid = int(ground.stack.gateways[0]["pid"])
    end = time.monotonic() + 45
    while time.monotonic() < end:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.45)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.15)
    yield 45


def gateway_cut_from_zookeeper(ground: Ground) -> Iterator[int]:
    ground.proxy.suspend()
    bind(ground.stack, "somebody", "west")
    yield 45
    ground.proxy.resume()


def worker_paused(ground: Ground) -> Iterator[int]:
    worker = next(pid for pid in sorted(descendants(ground.odd.pid)) if _is_worker(pid))
    os.kill(worker, signal.SIGSTOP)
    yield 60
    os.kill(worker, signal.SIGCONT)


def _is_worker(pid: int) -> bool:
    return b"-m\0gateway" in Path(f"/proc/{pid}/cmdline").read_bytes()


def fence_standing(ground: Ground) -> Iterator[int]:
    """The fence of an operation that has ended: what no process lifts."""
    topic = Topic(name="fenced", fence=Fence(operation="switch-20260101-000000-gone"))
    ground.store.commit(StateChange(change_id="fence", puts=(topic,), expected={(Topic, topic.name): None}))
    yield 75
    _, version = ground.store.read(Topic, topic.name) or (None, 0)
    ground.store.commit(
        StateChange(change_id="lift", deletes=((Topic, topic.name),), expected={(Topic, topic.name): version})
    )


def operation_killed(ground: Ground) -> Iterator[int]:
    """Its command died twenty minutes ago, before its fence."""
    started = (datetime.now(UTC) - timedelta(minutes=20)).isoformat(timespec="seconds")
    operation = a_switch(id="switch-20260101-000000-dead", by="cli:ops", reason="drill", started=started)
    epoch = ground.store.create_operation(operation, ["topic:nothing"])
    yield 75
    ground.store.update_operation(operation.changed(state="undone", ended=started), epoch)
    ground.store.release_locks(operation.id, epoch, started)


def approval_waiting(ground: Ground) -> Iterator[int]:
    now = datetime.now(UTC)
    since, until_ = ((now + timedelta(hours=hours)).isoformat(timespec="seconds") for hours in (-2, 22))
    ground.store.await_approval(WaitingApproval(run="airflow:switch/1", by="ann", since=since, answer_by=until_))
    yield 60
    ground.store.end_approval("airflow:switch/1")


def unreadable_document(ground: Ground) -> Iterator[int]:
    """A later version has written a topic."""
    topic = Topic(name="unreadable").changed(schema_=99)
    ground.store.commit(StateChange(change_id="new", puts=(topic,), expected={(Topic, topic.name): None}))
    yield 40
    gone = (Topic, topic.name)
    ground.store.commit(StateChange(change_id="old", deletes=(gone,), expected={gone: 0}))


def cluster_dead(ground: Ground) -> Iterator[int]:
    """The source of a mirror."""
    ground.stack.kill("cluster/east")
    yield 100
    ground.stack.restart("cluster/east")


def writer_masked(ground: Ground) -> Iterator[int]:
    switchyard(ground.stack, "mask", "east", "--reason", "drill", "--force")
    yield 60
    switchyard(ground.stack, "unmask", "east", "--reason", "drill")


def mirror_behind(ground: Ground) -> Iterator[int]:
    throttled = ("mirror", "throttle", "mirrored", "--to", "west", "--reason", "drill")
    switchyard(ground.stack, *throttled, "--max-bytes-s", "1024")
    ground.shows("max(switchyard_mirror_longest_rpo_seconds) > 40")
    yield 90
    switchyard(ground.stack, *throttled, "--max-bytes-s", "none")


def mirror_job_killed(ground: Ground) -> Iterator[int]:
    ground.stack.kill("mirror")
    yield 90
    ground.stack.restart("mirror")


def connections_refused(ground: Ground) -> Iterator[int]:
    held = [socket.create_connection(("127.0.0.1", ground.odd.port)) for _ in range(40)]
    time.sleep(5)
    for one in held:
        one.close()
    yield 30


def logins_failing(ground: Ground) -> Iterator[int]:
    settings = {
        "bootstrap.servers": ground.odd.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(ground.authority.file),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "wrong",
        "log_level": 0,
    }
    end = time.monotonic() + 30
    while time.monotonic() < end:
        producer = Producer(settings)
        producer.poll(0.5)
        del producer
    yield 30


def certificate_ending(ground: Ground) -> Iterator[int]:
    ground.authority.issue("odd", ["127.0.0.1"], days=CERTIFICATE_DAYS)
    yield 30
    ground.authority.issue("odd", ["127.0.0.1"])


def cluster_left_by_force(ground: Ground) -> Iterator[int]:
    """The clients of a dead cluster go on at its copy; it comes back, and its last records are not counted."""
    ground.stack.kill("cluster/east")
    ground.shows("max(switchyard_gateway_cluster_reachable{cluster='east'}) == 0")
    forced = ("--mode", "forced", "--unread", "skip", "--reason", "drill", "--yes")
    switchyard(ground.stack, "switch", "user:mirrored", "--from", "east", "--to", "west", *forced)
    ground.stack.restart("cluster/east")
    ground.shows("switchyard_problems{code='not-reconciled'}")
    yield 60


def zookeeper_stopped(ground: Ground) -> Iterator[int]:
    ground.stack.stop("zookeeper")
    yield 75
    ground.stack.restart("zookeeper")


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        normal,
        certificate_ending,
        approval_waiting,
        fence_standing,
        operation_killed,
        unreadable_document,
        connections_refused,
        logins_failing,
        worker_paused,
        gateway_killed,
        gateway_paused,
        gateway_starved,
        gateway_cut_from_zookeeper,
        writer_masked,
        mirror_behind,
        mirror_job_killed,
        cluster_dead,
        zookeeper_stopped,
        cluster_left_by_force,
    )
}


@contextmanager
def laid(folder: Path) -> Iterator[Ground]:
    """A stack with all that faults need, and load on it."""
    with ExitStack() as opened:
        stack = opened.enter_context(Stack.up(TWO_CLUSTERS, mirror=True, record_facts_s=10))
        for topic in ("plain", "mirrored"):
            create_topic(bootstrap(stack, "east"), topic)
            bind(stack, topic, "east")
        switchyard(stack, "mirror", "link", "mirrored", "--from", "east", "--to", "west", "--reason", "drill", "--yes")
        authority = Authority(folder)
        certificate = authority.issue("odd", ["127.0.0.1"])
        (folder / "users.yaml").write_text("ann: right\n")
        odd = OwnGateway(
            stack,
            folder / "odd",
            "gw-odd",
            workers=2,
            tls={"certificate_file": str(certificate.certificate), "key_file": str(certificate.key)},
            authentication={"mechanisms": ["PLAIN"], "users_file": str(folder / "users.yaml")},
            limits={"max_connections": 20},
        )
        proxy = FaultProxy(int(stack.zookeeper.rpartition(":")[2]))
        opened.callback(proxy.close)
        way = {"hosts": f"127.0.0.1:{proxy.port}", "root": ZOOKEEPER_ROOT, "session_timeout_ms": 6000}
        apart = OwnGateway(stack, folder / "apart", "gw-apart", zookeeper=way)
        for gateway in (odd, apart):
            opened.enter_context(gateway)
        store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
        opened.callback(store.close)
        for topic in ("plain", "mirrored"):
            run = Run(stack, folder / topic, user=topic)
            opened.callback(run.end)
            run.start("confluent-producer", "w", topic, rate=RATE, idempotence="on")
            run.start("confluent-consumer", "r", topic, group=topic)
        assert stack.mirror is not None
        targets = {
            "switchyard-gateway": [
                *(one["http"].removeprefix("http://") for one in stack.gateways),
                *(f"127.0.0.1:{own.http_port}" for own in (odd, apart)),
            ],
            "switchyard-mirror": [stack.mirror["metrics"]],
        }
        prometheus = opened.enter_context(Prometheus(folder / "prometheus", targets, EVERY_S))
        yield Ground(stack, prometheus, store, folder, odd, apart, proxy, authority)


def recorded(ground: Ground, name: str) -> Recording:
    """Lay a fault, record it, and heal it."""
    ground.quiet()
    time.sleep(BEFORE_S)
    begun = time.monotonic()
    print(f"{name} begins", flush=True)
    fault = FAULTS[name](ground)
    time.sleep(next(fault))
    seconds = BEFORE_S + int(time.monotonic() - begun)
    now_s = time.time()
    names = "|".join(metrics_of(rule["expr"] for rule in rules()))
    found = Recording.of(name, ground.prometheus.samples(f'{{__name__=~"{names}"}}', seconds), now_s, seconds)
    for _ in fault:
        raise AssertionError(f"{name} yields once")
    return found


def main(names: list[str]) -> int:
    failed = []
    with tempfile.TemporaryDirectory(prefix="switchyard-alarms-") as folder, laid(Path(folder)) as ground:
        for name in names or FAULTS:
            begun = time.monotonic()
            try:
                recording = recorded(ground, name)
            except Exception:
                traceback.print_exc()
                failed.append(name)
                continue
            recording.write()
            print(f"{name}: {len(recording.series)} series, {time.monotonic() - begun:.0f} s", flush=True)
    print(f"not recorded: {', '.join(failed) or 'none'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
