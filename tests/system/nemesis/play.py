"""Carries out a round on a real stack, and reports it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from ha_core.model import Operation, Topic
from ha_core.plan.engine.revision import FINAL
from ha_core.store.zookeeper import connect
from stack.clients.process import ClientProcess, history_of
from stack.harness import Stack
from stack.history.checker import Result
from stack.history.events import Failed, LibraryRemark
from tests.kit.running import ZOOKEEPER_ROOT, CommandFailedError, Run, bind, bootstrap, create_topic, switchyard
from tests.system.nemesis.schedule import HALVES, Bound, Does, Hits, Round, Sends, Strike, Writer

PARTITIONS = 2
RATE = 40
HALT_S = 8.0
"""Sometimes longer than a session, so that a move can happen between the halves."""
SHORT_HALT_S = 0.8
"""Shorter than an operation's wait for the rest, so that records sent between the halves succeed."""
UNAIDED_S = 45.0
"""After the last strike clients are served again within this time, without any resume by the test."""
ADOPTED_S = 45.0
"""Session timeout with which an operation joins adopted members, whatever their own is (`kafka/adoption`).
If their new coordinator dies before they have joined it themselves, a member that returns under another id waits
for this: seed 4242389105, which killed the target right after a switch."""
BACK_SOON = "reconnect.backoff.max.ms=500"
SOON_GONE = "session.timeout.ms=10000"
"""Time that a restarted coordinator waits for its group's former member. A client that was away longer returns as a new
member, and waits for this."""
ONE_AT_A_TIME = "max.in.flight.requests.per.connection=1"
"""A broker that was killed and restarted knows only the last batch of each producer."""


def _sending(writer: Writer, name: str, seed: int) -> tuple[str, Mapping[str, object]]:
    """(kind of client, options)."""
    common = {"rate": RATE, "settings": (BACK_SOON, ONE_AT_A_TIME)}
    halves = {"halt_s": HALT_S, "canary": f"canary-{name}", "seed": seed}
    table: dict[Sends, tuple[str, Mapping[str, object]]] = {
        Sends.PLAIN: ("confluent-producer", {**common, "acks": "all", "idempotence": "off"}),
        Sends.IDEMPOTENT: ("confluent-producer", {**common, "idempotence": "on"}),
        Sends.SILENT: ("confluent-producer", {**common, "acks": "0"}),
        Sends.TRANSACTIONAL: ("confluent-transactions", {**common, "transaction_records": 10}),
        Sends.HALVES: ("halting-sender", {**halves, "acks": "1"}),
        Sends.SILENT_HALVES: ("halting-sender", {**halves, "acks": "mixed", "halt_s": SHORT_HALT_S}),
    }
    return table[writer.sends]


@dataclass
class Executor:
    """The process of the current step."""

    process: subprocess.Popen[str]
    begun: threading.Event = field(default_factory=threading.Event)
    said: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, stack: Stack, step: str, told: Mapping[str, str]) -> Executor:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.nemesis.executor", stack.zookeeper, step, json.dumps(dict(told))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        executor = cls(process)
        threading.Thread(target=executor._read, args=(process.stdout,), daemon=True).start()
        return executor

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self.said.append(line)
            if line == "begun\n":
                self.begun.set()
        self.begun.set()

    def strike(self, strike: Strike) -> None:
        with contextlib.suppress(ProcessLookupError):
            if strike.does is Does.KILL:
                self.process.kill()
                return
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(strike.lasts_s)
            self.process.send_signal(signal.SIGCONT)


class Play:
    """One round on its own topic."""

    def __init__(self, stack: Stack, run: Run, name: str, drawn: Round) -> None:
        self.stack, self.run, self.topic, self.round = stack, run, name, drawn
        self.origin, self.target = ("east", "west") if drawn.westward else ("west", "east")
        self.operation = f"switch-{name}"[:90]
        self.words: list[str] = []
        self._executor: Executor | None = None
        self._writers: dict[str, ClientProcess] = {}

    def begin(self) -> None:
        """Create topic and users, and start the clients."""
        create_topic(bootstrap(self.stack, self.origin), self.topic, PARTITIONS)
        bind(self.stack, self._user(Bound.ORIGIN), self.origin)
        bind(self.stack, self._user(Bound.TARGET), self.target)
        isolation = "read_committed" if self._transactions else "read_uncommitted"
        self.reader = self.run.start(
            "confluent-consumer",
            "reader",
            self.topic,
            group=self.topic,
            client_id=self._client_id(Bound.ORIGIN),
            isolation=isolation,
            settings=(BACK_SOON, SOON_GONE),
        )
        for writer in self.round.writers:
            kind, options = _sending(writer, self.topic, self.round.seed)
            self._writers[writer.name] = self.run.start(
                kind, writer.name, self.topic, client_id=self._client_id(writer.bound), **options
            )
        for client in self._writers.values():
            client.wait_for(2, "sent")
        self.reader.wait_for(10, "delivered")

    def move(self) -> None:
        """Run all steps, with gaps and strikes. A step that is killed or fails is the last one: no executor returns."""
        if not self._step("start", ()):
            raise AssertionError(f"the operation was not created: {self.words[-1]}")
        for step, gap_s in zip(self.round.steps, self.round.gaps_s, strict=True):
            strikes = [strike for strike in self.round.strikes if strike.step == step]
            with self._striking([strike for strike in strikes if strike.before]):
                time.sleep(gap_s)
            if not self._step(step, [strike for strike in strikes if not strike.before]):
                break

    def _step(self, step: str, strikes: list[Strike] | tuple[Strike, ...]) -> bool:
        kinds = {
            "kind": self.round.kind,
            "operation": self.operation,
            "topic": self.topic,
            "origin": self.origin,
            "target": self.target,
            "clock_s": str(self.round.clock_s),
            "users": f"user:{self._user(Bound.ORIGIN)}" if self._transactions else "",
        }
        executor = self._executor = Executor.start(self.stack, step, kinds)
        assert executor.begun.wait(60)
        with self._striking(list(strikes)):
            try:
                code = executor.process.wait(150)
            finally:
                executor.process.kill()
        self.words.append(f"{step}: exit code {code}: {''.join(executor.said)}")
        return code == 0

    @contextlib.contextmanager
    def _striking(self, strikes: list[Strike]) -> Iterator[None]:
        threads = [threading.Thread(target=self._strike, args=(strike, self._executor)) for strike in strikes]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for thread in threads:
                thread.join()

    def _strike(self, strike: Strike, executor: Executor | None) -> None:
        if strike.at_the_fence:
            assert executor is not None
            self._await_fence(executor)
        else:
            time.sleep(strike.delay_s)
        with self.run.fault(str(strike), settle_s=5.0):
            if strike.hits is Hits.EXECUTOR:
                assert executor is not None
                executor.strike(strike)
                return
            part = {Hits.ORIGIN: f"cluster/{self.origin}", Hits.TARGET: f"cluster/{self.target}"}.get(
                strike.hits, strike.hits.value
            )
            begin, end = (
                (self.stack.pause, self.stack.resume)
                if strike.does is Does.PAUSE
                else (self.stack.kill, self.stack.restart)
            )
            with self._halved() if strike.between_halves else contextlib.nullcontext():
                begin(part)
                time.sleep(strike.lasts_s)
                end(part)

    @contextlib.contextmanager
    def _halved(self) -> Iterator[None]:
        """Halting senders pause, and send the rest afterwards."""
        pids = [self._writers[writer.name].pid for writer in self.round.writers if writer.sends in HALVES]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def _await_fence(self, executor: Executor) -> None:
        """Wait until clients are fenced, polling as fast as possible, since the next step lifts the fence."""
        store = connect(self.stack.zookeeper, root=ZOOKEEPER_ROOT)
        try:
            while executor.process.poll() is None:
                topic = store.read(Topic, self.topic)
                if topic is not None and (
                    topic[0].fence or (topic[0].crossing and topic[0].crossing.state == "proposed")
                ):
                    return
        finally:
            store.close()

    def goes_on(self) -> None:
        """All clients are served again without any resume by the test."""
        deadline = time.monotonic() + UNAIDED_S
        for writer in self.round.writers:
            client = self._writers[writer.name]
            silent = writer.sends in (Sends.SILENT, Sends.SILENT_HALVES)
            few = 1 if writer.sends in HALVES else RATE // 2
            what = "sent" if silent else "acknowledged"
            client.wait_for(client.count(what) + few, what, max(1.0, deadline - time.monotonic()))
        deadline += ADOPTED_S if self._transactions else 0.0  # these rounds move users, and so the reader's group
        self.reader.wait_for(self.reader.count("delivered") + RATE, "delivered", max(1.0, deadline - time.monotonic()))

    def ends(self) -> str:
        """The operation's last state, after the gateways' orphan recovery has resumed it."""
        store = connect(self.stack.zookeeper, root=ZOOKEEPER_ROOT)
        try:
            deadline = time.monotonic() + 90.0
            while (found := store.read(Operation, self.operation)) and found[0].state not in FINAL:
                assert time.monotonic() < deadline, f"{self.operation} is still {found[0].state}"
                with contextlib.suppress(CommandFailedError):
                    switchyard(self.stack, "resume", self.operation)
                time.sleep(0.5)
            assert found is not None
            topic = store.read(Topic, self.topic)
            assert topic is None or (topic[0].fence, topic[0].transaction_fence, topic[0].crossing) == (
                None,
                None,
                None,
            )
            assert [lock for lock in store.locks() if lock.operation == self.operation] == []
            return found[0].state
        finally:
            store.close()

    def judged(self) -> Result:
        """The end: no record lost, duplicated, reordered or renumbered; no error shown; no half request executed."""
        self.run.finish(list(self._writers.values()), [self.reader])
        result = self.run.verdict(self.topic, complete=[self.topic])
        assert result.sound, str(result)
        assert result.acknowledged > 0
        steady = [writer for writer in self.round.writers if writer.sends in (Sends.PLAIN, Sends.IDEMPOTENT)]
        events = [
            event
            for name, known in history_of(self.run.clients).clients.items()
            for event in known
            if (isinstance(event, LibraryRemark) and event.fatal)
            or (isinstance(event, Failed) and name in {writer.name for writer in steady})
        ]
        assert events == []
        for cluster in self.stack.clusters:
            assert f"canary-{self.topic}" not in topics(self.stack, cluster), "the half of a request was obeyed"
        return result

    @property
    def _transactions(self) -> bool:
        return any(writer.sends is Sends.TRANSACTIONAL for writer in self.round.writers)

    def _user(self, bound: Bound) -> str:
        return f"{self.topic}-{bound}"

    def _client_id(self, bound: Bound) -> str:
        return f"HA#{self._user(bound)}#{self.topic}"


def topics(stack: Stack, cluster: str) -> set[str]:
    """Topics that the cluster itself lists."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap(stack, cluster), "log_level": 3})
    return set(admin.list_topics(timeout=20).topics)
