"""Topics made like those of another cluster; `deletion` is the undo of that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ha_core.kafka.brokers import Brokers, pause
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import (
    ClusterUnreachableError,
    KafkaAdminError,
    TopicMismatchError,
    refusal,
)
from ha_core.kafka.facts import CreatedTopics, TopicSpec
from ha_core.kafka.topics import broker_setting, describe
from ha_core.wire.codes import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_MIN_IN_SYNC = "min.insync.replicas"
_NOT_CARRIED = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""They name brokers of the origin by id."""
_UNKNOWN_KEY = "unknown topic config name"
"""How brokers of every version begin to say that they do not know a key; its error code also means bad values."""


def create(
    brokers: Brokers,
    client: Callable[[], AdminClient],
    specs: Iterable[TopicSpec],
    still_ours: Callable[[], None],
    deadline: Deadline,
) -> CreatedTopics:
    """Creates what is missing and waits until every broker names a leader for every partition.

    A topic that exists with the same partition count counts as done. Configuration is carried over as far as the
    cluster knows the keys; replication is at most the number of brokers, min.insync.replicas at most the replication.

    :param still_ours: raises if they must not be created any more; asked next to each request.
    :raises TopicMismatchError: a topic exists with another partition count; nothing was created then.
    """
    wanted = {spec.name: spec for spec in specs}
    existing = tuple(sorted(_compare(brokers, wanted, deadline)))
    missing = [spec for name, spec in sorted(wanted.items()) if name not in existing]
    notes: list[str] = []
    if missing:
        shaped = [_fitted(brokers, spec, notes, deadline) for spec in missing]
        _create_all(brokers, client(), shaped, notes, still_ours, deadline)
        await_leaders(brokers, {spec.name: spec.partitions for spec in shaped}, deadline)
    return CreatedTopics(tuple(spec.name for spec in missing), existing, tuple(notes))


def await_leaders(brokers: Brokers, partitions: Mapping[str, int], deadline: Deadline) -> None:
    """Waits until every broker names a leader for every partition: clients may ask any of them."""
    nodes = list(brokers.nodes) or [broker["node_id"] for broker in brokers.metadata((), deadline)["brokers"]]

    def lacking(node: int) -> list[str]:
        answer = brokers.metadata(partitions, deadline, node)
        led = {
            topic["name"]: sum(part["leader_id"] >= 0 and not part["error_code"] for part in topic["partitions"])
            for topic in answer["topics"]
            if not topic["error_code"]
        }
        return [name for name, count in partitions.items() if led.get(name, 0) < count]

    for node in nodes:
        while names := lacking(node):
            pause(brokers, f"broker {node} knows no leaders yet for {', '.join(names[:5])}", deadline)


def _compare(brokers: Brokers, wanted: Mapping[str, TopicSpec], deadline: Deadline) -> set[str]:
    found = describe(brokers, wanted, deadline, offsets=False)
    for name, topic in sorted(found.items()):
        if topic.partitions != wanted[name].partitions:
            raise TopicMismatchError(
                brokers.cluster,
                f"topic {name} has {topic.partitions} partitions, {wanted[name].partitions} are needed. Give it as "
                "many, or delete it if it is not needed.",
            )
    return set(found)


def _fitted(brokers: Brokers, spec: TopicSpec, notes: list[str], deadline: Deadline) -> TopicSpec:
    """The spec with what this cluster cannot hold cut down; every cut is noted."""
    count = len(brokers.nodes)
    replication = max(1, min(spec.replication, count))
    if replication < spec.replication:
        notes.append(
            f"{spec.name}: replication {replication} in place of {spec.replication}: there are {count} brokers"
        )
    config = {key: value for key, value in spec.config.items() if key not in _NOT_CARRIED}
    notes.extend(
        f"{spec.name}: {key} is not carried over: it names brokers" for key in spec.config if key in _NOT_CARRIED
    )
    in_sync = config.get(_MIN_IN_SYNC)
    if in_sync is None:
        default = broker_setting(brokers, min(brokers.nodes), _MIN_IN_SYNC, deadline)
        in_sync = default if default is not None and _above(default, replication) else None
    if in_sync is not None and _above(in_sync, replication):
        notes.append(f"{spec.name}: {_MIN_IN_SYNC} {replication} in place of {in_sync}: no more than the replicas")
        config[_MIN_IN_SYNC] = str(replication)
    return TopicSpec(spec.name, spec.partitions, replication, config)


def _above(value: str, bound: int) -> bool:
    return value.isdecimal() and int(value) > bound


def _create_all(
    brokers: Brokers,
    admin: AdminClient,
    specs: list[TopicSpec],
    notes: list[str],
    still_ours: Callable[[], None],
    deadline: Deadline,
) -> None:
    still_ours()
    refused = _attempt(brokers, admin, specs, deadline)
    again = []
    for spec in specs:
        if spec.name in refused:
            again.append(_known_keys(brokers, admin, spec, notes, deadline))
    if again:
        still_ours()
    still = _attempt(brokers, admin, again, deadline) if again else {}
    if still:
        name, text = sorted(still.items())[0]
        raise refusal(brokers.cluster, f"create topic {name}", ErrorCode.INVALID_CONFIG, text)


def _known_keys(
    brokers: Brokers, admin: AdminClient, spec: TopicSpec, notes: list[str], deadline: Deadline
) -> TopicSpec:
    """The spec without the keys that the cluster does not know; each key is tried alone, nothing is created."""
    config = {}
    for key, value in spec.config.items():
        alone = TopicSpec(spec.name, spec.partitions, spec.replication, {key: value})
        text = _attempt(brokers, admin, [alone], deadline, validate_only=True).get(spec.name, "")
        if _UNKNOWN_KEY in text.lower():
            notes.append(f"{spec.name}: {key}={value} is not carried over: this cluster does not know it")
        elif text:
            raise refusal(
                brokers.cluster, f"create topic {spec.name} with {key}={value}", ErrorCode.INVALID_CONFIG, text
            )
        else:
            config[key] = value
    return TopicSpec(spec.name, spec.partitions, spec.replication, config)


def _attempt(
    brokers: Brokers, admin: AdminClient, specs: list[TopicSpec], deadline: Deadline, validate_only: bool = False
) -> dict[str, str]:
    """Creates (or checks) the topics; returns what was said of those whose configuration was refused."""
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    topics = [NewTopic(one.name, one.partitions, one.replication, config=dict(one.config)) for one in specs]
    futures = admin.create_topics(
        topics, operation_timeout=deadline.left_s, request_timeout=deadline.left_s, validate_only=validate_only
    )
    forgiven = {ErrorCode.INVALID_CONFIG}
    if not validate_only:
        forgiven.add(ErrorCode.TOPIC_ALREADY_EXISTS)  # made by another run of this operation: compared below
    codes = _await(brokers, futures, "create topic", deadline, forgiven)
    existing = {name for name, (code, _) in codes.items() if code == ErrorCode.TOPIC_ALREADY_EXISTS}
    if existing:
        _compare(brokers, {spec.name: spec for spec in specs if spec.name in existing}, deadline)
    return {name: text for name, (code, text) in codes.items() if code == ErrorCode.INVALID_CONFIG}


def _await(
    brokers: Brokers,
    futures: Mapping[str, Any],
    what: str,
    deadline: Deadline,
    forgiven: Collection[int] = (),
) -> dict[str, tuple[int, str]]:
    """Waits for librdkafka's futures; returns forgiven errors, raises the first other one."""
    from confluent_kafka import KafkaError, KafkaException

    out: dict[str, tuple[int, str]] = {}
    failures: list[KafkaAdminError] = []
    address = ",".join(f"{host}:{port}" for host, port in brokers.bootstrap)
    for name, future in futures.items():
        try:
            future.result(deadline.left_s + 1.0)
        except TimeoutError:
            failures.append(_timed_out(brokers, address, f"{what} {name}", deadline))
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if error.code() in forgiven:
                out[name] = (error.code(), error.str())
            elif error.code() < 0:  # librdkafka's own codes: timeouts and transport
                failures.append(_timed_out(brokers, address, f"{what} {name} ({error.str()})", deadline))
            else:
                failures.append(refusal(brokers.cluster, f"{what} {name}", error.code(), error.str()))
    if failures:
        # What was not answered comes first: it may happen yet.
        raise next((one for one in failures if isinstance(one, ClusterUnreachableError)), failures[0])
    return out


def _timed_out(brokers: Brokers, address: str, what: str, deadline: Deadline) -> ClusterUnreachableError:
    return ClusterUnreachableError(
        brokers.cluster,
        address,
        f"did not {what} within {deadline.seconds:g} s. Look whether its brokers are healthy, then try again.",
    )
