"""Probes that reveal the state of a gateway: a fence by refused produce, a binding by the coordinator."""

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.security import NO_SECURITY
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsFiles
from stack.clients.halting_sender import batch

ANSWER_S = 10.0
PAUSE_S = 0.001


def connect(address: str, ca_file: str | None = None) -> BlockingConnection:
    """A connection to `host:port`, with its API versions; over TLS if an authority is given."""
    host, _, port = address.rpartition(":")
    security = NO_SECURITY if ca_file is None else SecurityProfile(tls=TlsFiles(ca_file=ca_file))
    return BlockingConnection("the gateway", host, int(port), security, Deadline.after(ANSWER_S))


def broker_of(gateway: str, topic: str, ca_file: str | None = None) -> str:
    """`host:port` that the gateway reports for the leader of partition 0 of a topic."""
    connection = connect(gateway, ca_file)
    try:
        message = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        answer = _answer(connection, ApiKey.METADATA, message, 8)
    finally:
        connection.close()
    leader = answer["topics"][0]["partitions"][0]["leader_id"]
    broker = next(one for one in answer["brokers"] if one["node_id"] == leader)
    return f"{broker['host']}:{broker['port']}"


def produces(connection: BlockingConnection, topic: str) -> bool:
    """Whether one record was accepted; False for NOT_LEADER_OR_FOLLOWER, a fence's refusal."""
    entry = {"index": 0, "records": batch(b"probe", int(time.time() * 1000))}
    request = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{"name": topic, "partition_data": [entry]}],
    }
    answer = _answer(connection, ApiKey.PRODUCE, request, 8)
    error = int(answer["responses"][0]["partition_responses"][0]["error_code"])
    if error not in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        raise ValueError(f"the probe of {topic} at {connection.address} was answered {error}: it measures nothing")
    return error == ErrorCode.NONE


def coordinator(connection: BlockingConnection, group: str) -> tuple[str, int]:
    """(host, port) of the group's coordinator as shown to this client; ("", -1) if there is none."""
    answer = _answer(connection, ApiKey.FIND_COORDINATOR, {"key": group, "key_type": 0}, 2)
    return (str(answer["host"]), int(answer["port"])) if answer["error_code"] == 0 else ("", -1)


def _answer(connection: BlockingConnection, api: ApiKey, message: dict[str, Any], max_version: int) -> dict[str, Any]:
    connection.until = Deadline.after(ANSWER_S)
    return connection.call(api, message, max_version)


class AnswerWatcher:
    """Polls one gateway, with one request in flight, and records when the answers change."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask
        self._changed = threading.Condition()
        self._answer: Any = None
        self._since = 0.0
        self._error: Exception | None = None
        self._stopped = threading.Event()
        self.round_trips_s: list[float] = []
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(ANSWER_S)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(PAUSE_S):
                sent = time.monotonic()
                answer = self._ask()
                self.round_trips_s.append(time.monotonic() - sent)
                if answer != self._answer:
                    with self._changed:
                        self._answer, self._since = answer, sent
                        self._changed.notify_all()
        except (KafkaAdminError, OSError, ValueError) as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def wait_for(self, answer: Any, timeout_s: float) -> float:
        """Monotonic time at which the first request was sent that got this answer, like all later ones.

        :raises TimeoutError: the answer is another one.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._error is not None or self._answer == answer, timeout_s):
                raise TimeoutError(f"the gateway still answers {self._answer}, not {answer}, after {timeout_s:g} s")
            if self._error is not None:
                raise self._error
            return self._since
