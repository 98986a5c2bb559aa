"""CREATE_TOPICS, DELETE_TOPICS and CREATE_PARTITIONS: each topic in the one cluster that serves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gateway.composed import places
from gateway.composed.ask import Ask, Asking, ClusterUnavailableError, Controller, Message, ask_each
from gateway.composed.handlers import Context, Handler, handles
from ha_core.model import Crossing, Fence
from ha_core.wire.codes import ApiKey, ErrorCode

Outcome = tuple[int, str | None]
"""(error code, message) of a topic that no cluster is asked for."""

# Admin clients try again after it until their own time is up.
AWAY = ErrorCode.REQUEST_TIMED_OUT


@handles(ApiKey.CREATE_TOPICS)
def create_topics(context: Context, version: int, request: Message) -> Handler:
    refused = _named_twice(topic["name"] for topic in request["topics"])
    topics = {topic["name"]: topic for topic in request["topics"] if topic["name"] not in refused}
    # The topology may be some seconds old, and a topic must not come to be in two clusters.
    asks = {cluster: places.ask_topics(cluster, topics) for cluster in places.usable(context)} if topics else {}
    found = places.holders((yield from ask_each(asks)))
    unseen = _unseen(context)
    wanted: dict[str, list[Message]] = {}
    for name, topic in topics.items():
        cluster = places.resolve(context, name, found).cluster
        there = {*found.get(name, ()), *context.topology.existing(name)}
        if places.document(context, name).mapped:
            refused[name] = (ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} is served by cluster {cluster}")
        elif cluster is None:
            refused[name] = (ErrorCode.INVALID_REQUEST, "nothing says in which cluster: bind the user or set a default")
        elif there:
            where = ", ".join(sorted(there))
            refused[name] = (ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} exists in cluster {where}")
        elif unseen:
            why = f"cluster {', '.join(unseen)} was not reached yet and may hold topic {name}; mask it to go on without"
            refused[name] = (AWAY, why)
        else:
            _assign(context, cluster, topic, wanted, refused)
    answers = yield from _ask(request, ApiKey.CREATE_TOPICS, wanted, "topics", refused)
    # A refused topic has no configurations to show, which is null and not none.
    names = dict.fromkeys(topic["name"] for topic in request["topics"])
    return {"topics": [{"configs": None} | answers[name] for name in names]}


@handles(ApiKey.DELETE_TOPICS)
def delete_topics(context: Context, version: int, request: Message) -> Handler:
    names = dict.fromkeys(request["topic_names"])
    refused = _named_twice(request["topic_names"])
    wanted: dict[str, list[Message]] = {}
    for name in names:
        if name in refused:
            continue
        cluster = places.resolve(context, name).cluster
        if places.document(context, name).mapped:
            refused[name] = (
                ErrorCode.POLICY_VIOLATION,
                f"topic {name} was moved and its map leads to records in several clusters; delete it as an operator",
            )
        elif fence := places.document(context, name).fence:
            refused[name] = (ErrorCode.POLICY_VIOLATION, _being_moved(name, fence))
        elif cluster is None:
            refused[name] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        else:
            wanted.setdefault(cluster, []).append({"name": name})
    answers = yield from _ask(request, ApiKey.DELETE_TOPICS, wanted, "responses", refused)
    return {"responses": [answers[name] for name in names]}


@handles(ApiKey.CREATE_PARTITIONS)
def create_partitions(context: Context, version: int, request: Message) -> Handler:
    """New partitions of a moved topic are made in its writer's cluster only.

    A partition that the map does not list is one that never left the writer; older clusters hold nothing of it. So
    none may come while the writer changes.
    """
    refused = _named_twice(topic["name"] for topic in request["topics"])
    wanted: dict[str, list[Message]] = {}
    for topic in request["topics"]:
        name = topic["name"]
        if name in refused:
            continue
        cluster = places.resolve(context, name).cluster
        known = places.document(context, name)
        if mover := known.fence or known.transaction_fence or known.crossing:
            refused[name] = (ErrorCode.POLICY_VIOLATION, _being_moved(name, mover))
        elif cluster is None:
            refused[name] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        else:
            _assign(context, cluster, topic, wanted, refused)
    answers = yield from _ask(request, ApiKey.CREATE_PARTITIONS, wanted, "results", refused)
    return {"results": [answers[name] for name in dict.fromkeys(topic["name"] for topic in request["topics"])]}


def _named_twice(names: Iterable[str]) -> dict[str, Outcome]:
    """As controllers answer: which of the two is meant is not for them to say."""
    times = Counter(names)
    return {name: (ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in times if times[name] > 1}


def _ask(
    request: Message, api_key: int, wanted: Mapping[str, list[Message]], results: str, refused: Mapping[str, Outcome]
) -> Asking[dict[str, Message]]:
    """Asks the controller of each cluster for its topics: name → result, those refused here included."""
    answers = {name: _result(name, *outcome) for name, outcome in refused.items()}

    def message(topics: list[Message]) -> Message:
        by_name = api_key == ApiKey.DELETE_TOPICS
        named = {"topic_names": [topic["name"] for topic in topics]} if by_name else {}
        said: Message = {name: request[name] for name in ("timeout_ms", "validate_only") if name in request}
        return {"topics": topics, **said, **named}

    wait_ms = places.wait_ms(request)
    asks = {
        cluster: Ask(cluster, Controller(), api_key, message(topics), wait_ms) for cluster, topics in wanted.items()
    }
    for cluster, reply in (yield from ask_each(asks)).items():
        if isinstance(reply, ClusterUnavailableError):
            found, why = {}, str(reply)
        else:
            found, why = {r["name"]: r for r in reply[results]}, "the cluster left this topic out of its answer"
        for name in (topic["name"] for topic in wanted[cluster]):
            answers[name] = found.get(name) or _result(name, AWAY, why)
    return answers


def _result(name: str, code: int, why: str | None) -> Message:
    return {"name": name, "error_code": int(code), "error_message": why}


def _unseen(context: Context) -> list[str]:
    clusters = context.topology.clusters
    return sorted(
        name
        for name, cluster in context.view.clusters.items()
        if not cluster.masked and (name not in clusters or not clusters[name].known)
    )


def _being_moved(topic: str, mover: Fence | Crossing) -> str:
    return f"topic {topic} is being moved by operation {mover.operation}; try again when it has ended"


def _assign(
    context: Context,
    cluster: str,
    topic: Message,
    wanted: dict[str, list[Message]],
    refused: dict[str, Outcome],
) -> None:
    """Takes the topic in among those that are wanted, its assignments with the cluster's own broker ids."""
    name, assignments = topic["name"], list[Message]()
    for assignment in topic["assignments"] or ():
        ids: list[int] = []
        for node_id in assignment["broker_ids"]:
            broker = places.real_broker(context, node_id)
            if broker is None or broker[0] != cluster:
                what = f"a broker of cluster {broker[0]}; topic {name} belongs to cluster {cluster}" if broker else None
                refused[name] = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"node {node_id} is {what or 'no broker'}")
                return
            ids.append(broker[1])
        assignments.append(assignment | {"broker_ids": ids})
    given = topic if topic["assignments"] is None else topic | {"assignments": assignments}
    wanted.setdefault(cluster, []).append(given)
