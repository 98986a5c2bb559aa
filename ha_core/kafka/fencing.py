"""Fences: makes a cluster's brokers refuse the earlier writers to partitions. `ha_core.mirror.progress` says why.

**The fence** is an empty aborted transaction, which carries a new epoch to the leaders. END_TXN is answered before the
markers are written, and only the marker fences. A coordinator repeats a marker until it knows that it was written, so
it may be written twice: a second marker between appended batches would look like the end of the copy. So END_TXN is
sent again until the coordinator reports the transaction as completed.

After the last epoch the coordinator assigns another producer id, whose marker does not fence the old id. So no copier
appends in the last epoch: its marker fences earlier epochs, and the fence is repeated.

Each transactional id has its own conversation with its coordinator. Those of many ids go on together: their requests
are sent one after the other over one connection before the answers are awaited, and coordinators are found by one
request.
"""

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ha_core.kafka.brokers import Asking, pages
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, NotReadyError, TakenOverError
from ha_core.mirror.progress import Writer
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode

LAST_EPOCH = (1 << 15) - 2
"""The last epoch that INIT_PRODUCER_ID assigns for a producer id."""
_TRANSACTION = 1
"""Key type of FIND_COORDINATOR."""
_SEVERAL_FROM = 4
"""The version of FIND_COORDINATOR that takes several keys (KIP-699, brokers from 3.0 on)."""
_TIMEOUT_MS = 60_000
"""Then the coordinator ends the transaction of a stalled copier, and fences it as a successor would."""
_ADD, _END, _INIT = 3, 3, 4
"""Versions before KIP-890, where transactions begin and end implicitly."""
_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
_AT_ONCE = 64
"""Requests sent before their answers are read: other users of the connection wait for so many."""
_KEYS_AT_ONCE = 1_000
_EACH_S = 0.1
"""Time for each further id: coordinators write one after the other."""
_OTHERS_S = 2.0
"""Ids without progress for so long do not keep the others of their round from going on."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.25


class _Request(NamedTuple):
    api: ApiKey
    message: Mapping[str, Any]
    max_version: int


_Conversation = Generator[_Request, Mapping[str, Any], Writer]


def fence(asking: Asking, name: str, partitions: tuple[Partition, ...]) -> Writer:
    """Makes brokers refuse all earlier writers to these partitions with the transactional id `name`.

    :raises TakenOverError: another process fenced later.
    :raises NotReadyError: markers cannot be written, for example because too few replicas are in sync.
    """
    found = fence_all(asking, {name: partitions})[name]
    if isinstance(found, KafkaAdminError):
        raise found
    return found


def fence_all(asking: Asking, wanted: Mapping[str, tuple[Partition, ...]]) -> dict[str, Writer | KafkaAdminError]:
    """`fence` for several transactional ids. Ids whose markers cannot be written now do not delay the others long, and
    get a NotReadyError.
    """
    return _Fences(asking, wanted).run()


def _conversation(name: str, partitions: tuple[Partition, ...]) -> _Conversation:
    while True:
        begin = {"transactional_id": name, "transaction_timeout_ms": _TIMEOUT_MS}
        started = yield _Request(ApiKey.INIT_PRODUCER_ID, begin, _INIT)
        writer = Writer(started["producer_id"], started["producer_epoch"])
        mine = {"transactional_id": name, "producer_id": writer.producer_id, "producer_epoch": writer.epoch}
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        added = [{"name": topic, "partitions": several} for topic, several in topics.items()]
        yield _Request(ApiKey.ADD_PARTITIONS_TO_TXN, {**mine, "topics": added}, _ADD)
        for _ in ("begins to end", "has ended"):
            yield _Request(ApiKey.END_TXN, {**mine, "committed": False}, _END)
        if writer.epoch < LAST_EPOCH:
            return writer


@dataclass
class _Fence:
    """:ivar begun: time at which its transaction began; None: it has not."""

    conversation: _Conversation
    request: _Request
    why: str = "no answer"
    begun: float | None = None


class _Fences:
    def __init__(self, asking: Asking, wanted: Mapping[str, tuple[Partition, ...]]) -> None:
        self._asking, self._patience_s = asking, asking.deadline.seconds
        self._open: dict[str, _Fence] = {}
        for name, partitions in wanted.items():
            conversation = _conversation(name, partitions)
            self._open[name] = _Fence(conversation, next(conversation))
        self._coordinators: dict[str, int] = {}
        self._done: dict[str, Writer | KafkaAdminError] = {}
        self._wanted = list(wanted)

    def run(self) -> dict[str, Writer | KafkaAdminError]:
        moved_at = time.monotonic()
        until = moved_at + self._asking.deadline.left_s + _EACH_S * (len(self._open) - 1)
        pause_s = _FIRST_PAUSE_S
        while self._open:
            moved, waits = self._round()
            now = time.monotonic()
            if moved:
                moved_at, pause_s = now, _FIRST_PAUSE_S
            quiet_s = now - moved_at
            if now + pause_s >= until or quiet_s >= (_OTHERS_S if self._done else self._patience_s):
                self._give_up()
            elif waits:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return {name: self._done[name] for name in self._wanted}

    def _round(self) -> tuple[bool, bool]:
        """One request for each id: (whether any went on, whether any has to wait)."""
        before = len(self._open)
        self._locate([name for name in self._open if name not in self._coordinators])
        by_node: dict[int, list[str]] = {}
        for name in self._open:
            if name in self._coordinators:
                by_node.setdefault(self._coordinators[name], []).append(name)
        waits = len(by_node) == 0
        moved = len(self._open) < before
        for answers in self._fresh().on_each(list(by_node.items()), lambda located: self._answers(*located)):
            assert not isinstance(answers, KafkaAdminError)
            for name, answer in answers.items():
                went_on = self._take(name, answer)
                moved, waits = moved or went_on, waits or not went_on
        return moved, waits

    def _fresh(self) -> Asking:
        return self._asking.by(Deadline.after(self._patience_s))

    def _answers(self, node: int, names: Sequence[str]) -> dict[str, Mapping[str, Any] | KafkaAdminError]:
        answers: dict[str, Mapping[str, Any] | KafkaAdminError] = {}
        for some in pages(names, _AT_ONCE):
            requests = [self._open[name].request for name in some]
            try:
                found = self._fresh().converse(node, partial(_pipelined, requests))
            except KafkaAdminError as error:
                return answers | dict.fromkeys([name for name in names if name not in answers], error)
            answers |= zip(some, found, strict=True)
        return answers

    def _take(self, name: str, answer: Mapping[str, Any] | KafkaAdminError) -> bool:
        """True if the id went on, or is done."""
        fence = self._open[name]
        if isinstance(answer, ClusterUnreachableError):
            fence.why = str(answer)
            self._coordinators.pop(name, None)
            return False
        if isinstance(answer, KafkaAdminError):
            return self._end(name, answer)
        if code := _code_of(answer):
            return self._refused(name, fence, code)
        if fence.begun is None:
            fence.begun = time.monotonic()
        try:
            fence.request = fence.conversation.send(answer)
        except StopIteration as ended:
            return self._end(name, ended.value)
        return True

    def _refused(self, name: str, fence: _Fence, code: int) -> bool:
        if code in _FENCED:
            error = TakenOverError(self._asking.cluster, f"{name} was taken over by a later copier.")
            if fence.begun is not None and time.monotonic() - fence.begun >= _TIMEOUT_MS / 2000:
                return self._end(
                    name, KafkaAdminError(self._asking.cluster, f"{name} stood still in the middle of a take-over.")
                )
            return self._end(name, error)
        if code == ErrorCode.CONCURRENT_TRANSACTIONS:
            fence.why = "markers are not written yet; are enough replicas in sync?"
            return False
        try:
            again = self._asking.again(f"take over {name} ({fence.request.api.name})", code)
        except KafkaAdminError as error:
            return self._end(name, error)
        assert again is not None
        fence.why = again.why
        self._coordinators.pop(name, None)
        return False

    def _end(self, name: str, result: Writer | KafkaAdminError) -> bool:
        del self._open[name]
        self._done[name] = result
        return True

    def _give_up(self) -> None:
        for name, fence in list(self._open.items()):
            text = (
                f"could not take over {name} ({fence.request.api.name}) within {self._patience_s:g} s "
                f"({name}: {fence.why}). Try again once its brokers are healthy."
            )
            self._end(name, NotReadyError(self._asking.cluster, text))

    # Coordinators

    def _locate(self, names: Sequence[str]) -> None:
        """:raises ClusterUnreachableError: no broker of the bootstrap list answers."""
        unknown = False
        for some in pages(names, _KEYS_AT_ONCE):
            for name, found in self._fresh().converse(None, partial(_coordinators, some)).items():
                try:
                    again = self._asking.again(
                        f"find the coordinator of {name}", found["error_code"], found["error_message"]
                    )
                except KafkaAdminError as error:
                    self._end(name, error)
                    continue
                if again:
                    self._open[name].why = again.why
                else:
                    self._coordinators[name] = found["node_id"]
                    unknown |= found["node_id"] not in self._asking.nodes
        if unknown:
            self._fresh().metadata()


def _pipelined(requests: Iterable[_Request], connection: BlockingConnection) -> list[dict[str, Any]]:
    count = 0
    for request in requests:
        connection.send(request.api, request.message, request.max_version)
        count += 1
    return [connection.receive() for _ in range(count)]


def _coordinators(names: Sequence[str], connection: BlockingConnection) -> dict[str, dict[str, Any]]:
    """name → its coordinator, or the error."""
    api = ApiKey.FIND_COORDINATOR
    if connection.version(api) >= _SEVERAL_FROM:
        answer = connection.call(api, {"key_type": _TRANSACTION, "coordinator_keys": list(names)}, _SEVERAL_FROM)
        return {one["key"]: one for one in answer["coordinators"] if one["key"] in set(names)}
    found: dict[str, dict[str, Any]] = {}
    for some in pages(names, _AT_ONCE):
        requests = [_Request(api, {"key": name, "key_type": _TRANSACTION}, _SEVERAL_FROM - 1) for name in some]
        found |= zip(some, _pipelined(requests, connection), strict=True)
    return found


def _code_of(answer: Mapping[str, Any]) -> int:
    parts = [part for topic in answer.get("results_by_topic", ()) for part in topic["results_by_partition"]]
    codes = {part["partition_error_code"] for part in parts} | {answer.get("error_code", 0)}
    return min(codes - {ErrorCode.OPERATION_NOT_ATTEMPTED, 0}, default=0)
