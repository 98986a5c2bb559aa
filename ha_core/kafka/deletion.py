"""Topics deleted by their ids: whoever was looked at is deleted, and nobody who has got its name since.

Between the look and the deletion a process may stand still for as long as it likes. So what may be deleted is asked for
(`still_ours`) next to each request, and the request names ids: what another operation has made meanwhile has another
one. Brokers before 2.8 know names only; there a process that stands still just between that question and its request
can delete a topic of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ha_core.kafka.brokers import Brokers, pages, pause
from ha_core.kafka.connection import Connection
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import ClusterUnreachableError, TopicNotEmptyError, refusal
from ha_core.kafka.topics import TopicDescription, describe
from ha_core.wire.codes import ApiKey, ErrorCode, name_of

_WITH_IDS = 12
"""METADATA; ids are in it from 10 on."""
_BY_ID = 6
"""First DELETE_TOPICS version that takes them."""
_NO_ID = bytes(16)
_GONE = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
_WORTH_WAITING = {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}
_MAX_PER_REQUEST = 1_000


def delete_empty(
    brokers: Brokers, names: Collection[str], still_ours: Callable[[], None], deadline: Deadline
) -> tuple[str, ...]:
    """Deletes the topics of `names` that exist, all or none: only if no partition ever had a record.

    :param still_ours: raises if they must not be deleted any more.
    :raises TopicNotEmptyError: names a topic and partition with records, or with a past.
    """

    def require_unused(name: str, topic: TopicDescription) -> None:
        for index, one in topic.ends.items():
            if not one.never_used:
                raise TopicNotEmptyError(
                    brokers.cluster,
                    f"topic {name} is not deleted: partition {index} runs from {one.start} to {one.log_end}, so it was "
                    "used. Delete it by hand if nobody needs it.",
                )

    return _delete(brokers, names, require_unused, still_ours, deadline)


def delete_drained(
    brokers: Brokers, names: Collection[str], still_ours: Callable[[], None], deadline: Deadline
) -> tuple[str, ...]:
    """Deletes the topics of `names` that exist, all or none: only if no partition holds a record any more.

    :param still_ours: raises if they must not be deleted any more.
    :raises TopicNotEmptyError: names a topic and partition with records, or one that does not answer.
    """

    def require_drained(name: str, topic: TopicDescription) -> None:
        for index in range(topic.partitions):
            one = topic.ends.get(index)
            if one is None or one.start < one.log_end:
                held = "does not say what it holds" if one is None else f"holds offsets {one.start} to {one.log_end}"
                raise TopicNotEmptyError(
                    brokers.cluster, f"topic {name} is not deleted: partition {index} {held}. Try again later."
                )

    return _delete(brokers, names, require_drained, still_ours, deadline)


def _delete(
    brokers: Brokers,
    names: Collection[str],
    require: Callable[[str, TopicDescription], None],
    still_ours: Callable[[], None],
    deadline: Deadline,
) -> tuple[str, ...]:
    if not names:
        return ()
    # In this order: an id that is read first cannot be that of a topic which was made after the look at its log.
    ids = _ids(brokers, names, deadline)
    found = {name: topic for name, topic in describe(brokers, names, deadline).items() if name in ids}
    for name, topic in sorted(found.items()):
        require(name, topic)
    ordered = sorted(found)
    for some in pages(ordered, _MAX_PER_REQUEST):
        _request(brokers, {name: ids[name] for name in some}, still_ours, deadline)
    _await_gone(brokers, {name: ids[name] for name in ordered}, deadline)
    return tuple(ordered)


def _ids(brokers: Brokers, names: Collection[str], deadline: Deadline) -> dict[str, bytes]:
    """Name → id of the topics that exist; brokers before 2.8 give none."""
    answer = brokers.call(None, ApiKey.METADATA, _ask(names), deadline, _WITH_IDS)
    return {topic["name"]: topic["topic_id"] for topic in answer["topics"] if not topic["error_code"]}


def _ask(names: Collection[str]) -> dict[str, Any]:
    return {
        "topics": [{"topic_id": _NO_ID, "name": name} for name in sorted(names)],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
    }


def _request(brokers: Brokers, ids: Mapping[str, bytes], still_ours: Callable[[], None], deadline: Deadline) -> None:
    """Asks the controller until it has taken all of it."""
    left = dict(ids)
    while left:
        controller = brokers.metadata((), deadline)["controller_id"]
        still_ours()

        def ask(connection: Connection, left: Mapping[str, bytes] = left) -> dict[str, Any]:
            by_id = connection.version(ApiKey.DELETE_TOPICS) >= _BY_ID and _NO_ID not in left.values()
            topics = [{"name": None, "topic_id": one} for one in left.values()]
            which = {"topics": topics} if by_id else {"topic_names": list(left)}
            message = {**which, "timeout_ms": max(1, int(deadline.left_s * 1000))}
            most = 32767 if by_id else _BY_ID - 1
            return connection.call(ApiKey.DELETE_TOPICS, message, deadline, most)

        node = controller if controller in brokers.nodes else None
        answers = brokers.converse(node, ask, deadline)["responses"]
        names = {one: name for name, one in left.items()}
        waits = ""
        for answer in answers:
            name, code = answer["name"] or names.get(answer["topic_id"], ""), answer["error_code"]
            if code in _WORTH_WAITING:
                waits = f"topic {name} is not deleted ({name_of(code)})"
            elif code and code not in _GONE:
                raise refusal(brokers.cluster, f"delete topic {name}", code, answer["error_message"])
            else:
                left.pop(name, None)
        if left:
            pause(brokers, waits or f"{', '.join(sorted(left)[:5])} are not deleted", deadline)


def _await_gone(brokers: Brokers, ids: Mapping[str, bytes], deadline: Deadline) -> None:
    """Waits until no broker that answers shows them: clients may ask any of them."""
    for node in list(brokers.nodes) if ids else ():
        while True:
            try:
                answer = brokers.call(node, ApiKey.METADATA, _ask(ids), deadline, _WITH_IDS)
            except ClusterUnreachableError:
                break  # it hears of it when it is back
            shown = [
                topic["name"]
                for topic in answer["topics"]
                if topic["error_code"] not in _GONE and topic["topic_id"] in (_NO_ID, ids.get(topic["name"]))
            ]
            if not shown:
                break
            pause(brokers, f"topics {', '.join(shown[:5])} are being deleted", deadline)
