"""Deletes topics by id: only the topic that was inspected, never a later one of the same name.

A process may stand still for any time between inspection and deletion. So permission (`still_ours`) is checked before
each request, and the request has topic ids: a topic that another operation has created meanwhile has another id.
Brokers before 2.8 support names only; there a process that stands still between that check and its request can delete a
new topic of the same name.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from ha_core.kafka.brokers import Answers, Asking, Brokers, StillOurs, pages
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import ClusterUnreachableError, StandsInTheWayError
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.topics import describe
from ha_core.wire.client import NEWEST
from ha_core.wire.codes import ApiKey, ErrorCode

_BY_ID = 6
"""First DELETE_TOPICS version with ids."""
_NO_ID = bytes(16)
_GONE = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
_MAX_PER_REQUEST = 1_000


class TopicDeletion(Brokers):
    def delete_empty_topics(
        self, names: Collection[str], still_ours: StillOurs, timeout_s: float | None = None
    ) -> tuple[str, ...]:
        """Deletes the existing topics of `names`, all or none: only if no partition ever had a record.

        :raises StandsInTheWayError: names a topic and partition with records, or that had some.
        """

        def used(end: LogEnds | None) -> str:
            if end is None or end.never_used:
                return ""
            return f"runs from {end.start} to {end.log_end}, so it was used. Delete it by hand if it is not needed."

        return _delete(self.asking(timeout_s), names, used, still_ours)

    def delete_drained_topics(
        self, names: Collection[str], still_ours: StillOurs, timeout_s: float | None = None
    ) -> tuple[str, ...]:
        """Deletes the existing topics of `names`, all or none: only if no partition holds a record any more.

        :raises StandsInTheWayError: names a topic and partition with records, or one that does not answer.
        """

        def holding(end: LogEnds | None) -> str:
            if end is None:
                return "does not say what it holds. Try again later."
            return f"holds offsets {end.start} to {end.log_end}. Try again later." if end.start < end.log_end else ""

        return _delete(self.asking(timeout_s), names, holding, still_ours)

    def topic_ids(self, names: Collection[str], timeout_s: float | None = None) -> dict[str, str]:
        """Ids of existing topics, in hexadecimal; "" where brokers have none (before 2.8)."""
        found = _ids(self.asking(timeout_s), names)
        return {name: "" if topic_id == _NO_ID else topic_id.hex() for name, topic_id in sorted(found.items())}

    def delete_topics(
        self, ids: Mapping[str, str], still_ours: StillOurs, timeout_s: float | None = None
    ) -> tuple[str, ...]:
        """Deletes topics with all their records. A topic that is gone or was re-created since is left alone.

        :param ids: from `topic_ids`.
        """
        asking = self.asking(timeout_s)
        wanted = {name: bytes.fromhex(topic_id) or _NO_ID for name, topic_id in ids.items()}
        there = _ids(asking, wanted) if wanted else {}
        return _delete_by_id(asking, {name: there[name] for name in there if there[name] == wanted[name]}, still_ours)


def _ids(asking: Asking, names: Collection[str]) -> dict[str, bytes]:
    return {topic["name"]: topic["topic_id"] for topic in asking.metadata(names)["topics"] if not topic["error_code"]}


def _delete(
    asking: Asking, names: Collection[str], kept: Callable[[LogEnds | None], str], still_ours: StillOurs
) -> tuple[str, ...]:
    """`kept` returns the reason why a partition forbids the deletion, or ""."""
    if not names:
        return ()
    # Ids are read before the logs: an id read later could be that of a topic created after its log was inspected.
    known = _ids(asking, names)
    topics = {name: topic for name, topic in sorted(describe(asking, names).items()) if name in known}
    for name, topic in topics.items():
        for index in range(topic.partitions):
            if why := kept(topic.ends.get(index)):
                raise StandsInTheWayError(asking.cluster, f"topic {name} is not deleted: partition {index} {why}")
    return _delete_by_id(asking, {name: known[name] for name in topics}, still_ours)


def _delete_by_id(asking: Asking, ids: Mapping[str, bytes], still_ours: StillOurs) -> tuple[str, ...]:
    """Deletes, and waits until no reachable broker shows the topics."""
    for some in pages([*ids], _MAX_PER_REQUEST):
        _request(asking, {name: ids[name] for name in some}, still_ours)

    def shown(topic: dict[str, Any]) -> bool:
        return topic["error_code"] not in _GONE and topic["topic_id"] in (_NO_ID, ids.get(topic["name"]))

    for node in [*asking.nodes] if ids else ():
        with suppress(ClusterUnreachableError):  # it learns of the deletion when it is back
            asking.await_topics(node, ids, shown, "topics {} are being deleted")
    return tuple(ids)


def _request(asking: Asking, ids: Mapping[str, bytes], still_ours: StillOurs) -> None:
    names = {topic_id: name for name, topic_id in ids.items()}

    def ask(node: int, left: list[str]) -> Answers[str, bool]:
        def talk(connection: BlockingConnection) -> dict[str, Any]:
            message = {
                "topics": [{"topic_id": ids[name]} for name in left],
                "topic_names": left,  # replaces ids before `_BY_ID`
                "timeout_ms": asking.deadline.left_ms,
            }
            still_ours()
            return connection.call(ApiKey.DELETE_TOPICS, message, _BY_ID - 1 if _NO_ID in names else NEWEST)

        for topic in asking.converse(node, talk)["responses"]:
            name = topic["name"] or names.get(topic["topic_id"], "")
            code = ErrorCode.NONE if topic["error_code"] in _GONE else topic["error_code"]
            yield name, asking.again(f"delete topic {name}", code, topic["error_message"]) or True

    asking.rounds("delete the topics", [*ids], asking.controller, ask)
