"""CREATE_TOPICS, DELETE_TOPICS and CREATE_PARTITIONS: each topic in the one cluster that serves it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gateway.composed import lookups
from gateway.composed.ask import Ask, Asking, ClusterUnavailableError, Controller, Message, ask_each, grouped
from gateway.composed.handlers import Context, DeleteMoved, Handler, handles
from gateway.model.rights import Denied
from ha_core.model import Crossing, Fence, Topic
from ha_core.model.access import AclOperation, ResourceType
from ha_core.plan.mirror.mirrored_topics import is_chained
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.rights import DENIED


class _Refused(NamedTuple):
    """A topic that no cluster is asked for."""

    code: int
    why: str | None


class _ClusterTopic(NamedTuple):
    cluster: str
    topic: Message
    """The topic's entry in the request to that cluster."""


# Admin clients retry on it until their own timeout.
AWAY = ErrorCode.REQUEST_TIMED_OUT
MAX_MOVED = 20
"""Moved topics that one request may delete: each is an operation of its own."""


@handles(ApiKey.CREATE_TOPICS)
def create_topics(context: Context, version: int, request: Message) -> Handler:
    too_many = _too_many(context, sum(map(_partitions, request["topics"])))
    names = [] if too_many else [name for name, times in _times(request["topics"]).items() if times == 1]
    # The topology may be some seconds old, and a topic must not be created in two clusters.
    asks = {cluster: lookups.ask_topics(cluster, names) for cluster in lookups.usable(context)} if names else {}
    replies = yield from ask_each(asks)
    found = lookups.holders(replies)
    unseen = _unseen(context)
    answered = {cluster for cluster, reply in replies.items() if not isinstance(reply, ClusterUnavailableError)}
    doubtful = bool(context.view.clusters.keys() - answered)

    def choose(topic: Message) -> _ClusterTopic | _Refused:
        if too_many:
            return too_many
        name = topic["name"]
        cluster = lookups.resolve(context, name, found).cluster
        there = {*found.get(name, ()), *context.topology.existing(name)}
        if context.view.deleted(name):
            # Admin clients retry on it. TOPIC_ALREADY_EXISTS would contradict METADATA.
            return _Refused(AWAY, f"{lookups.concealed(context, name)}; the name is free when that has ended")
        if context.view.concealed(name):
            return _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, lookups.concealed(context, name))
        if lookups.document(context, name).mapped:
            return _mapped_already(context, name, there, doubtful)
        if cluster is None:
            return _Refused(ErrorCode.INVALID_REQUEST, "the topic has no cluster: bind the user or set a default")
        if there:
            where = ", ".join(sorted(there))
            return _Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} exists in cluster {where}")
        if unseen:
            why = f"cluster {', '.join(unseen)} was not reached yet and may hold topic {name}; mask it to go on without"
            return _Refused(AWAY, why)
        return _assigned(context, cluster, topic)

    answers = yield from _ask(request, ApiKey.CREATE_TOPICS, request["topics"], "topics", choose)
    return {"topics": [_shown(context, {"configs": []} | answer) for answer in answers]}


def _partitions(topic: Message) -> int:
    """Number of partitions of a new topic; if the brokers' default applies, at least one."""
    count: int = topic["num_partitions"]
    return len(topic["assignments"]) or max(1, count)


def _growth(context: Context, topic: Message) -> int:
    """Number of new partitions, as far as the gateway knows: from the cluster that has the fewest."""
    name = topic["name"]
    there = [len(cluster.topics[name]) for cluster in context.topology.clusters.values() if name in cluster.topics]
    count, assigned = int(topic["count"]), len(topic["assignments"] or ())
    return max(0, count - min(there, default=0), assigned)


def _too_many(context: Context, partitions: int) -> _Refused | None:
    """The refusal of too many partitions. Controllers before Kafka 4 try to create them, even when they only validate,
    and run out of memory."""
    limit = context.limits.max_created_partitions
    if partitions <= limit:
        return None
    why = f"{partitions} new partitions in one request, {limit} at most: ask for fewer at once"
    return _Refused(ErrorCode.INVALID_PARTITIONS, why)


def _mapped_already(context: Context, name: str, there: Collection[str], doubtful: bool) -> _Refused:
    """:param doubtful: a cluster was not asked just now, or did not answer."""
    if there or doubtful:
        return _Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} was moved, and is served by its map")
    why = (
        f"topic {name} was moved, and then deleted in all clusters past the gateways: its map leads to records that "
        f"are gone. `switchyard topics delete {name}` forgets the map, and frees the name"
    )
    return _Refused(ErrorCode.POLICY_VIOLATION, why)


def _shown(context: Context, created: Message) -> Message:
    """The result that the topic's creator may see: partition count and settings need another right."""
    if created["error_code"] or context.allows(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, created["name"]):
        return created
    hidden = {"topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "configs": []}
    return created | {"num_partitions": -1, "replication_factor": -1} | hidden


@handles(ApiKey.DELETE_TOPICS)
def delete_topics(context: Context, version: int, request: Message) -> Handler:
    def choose(topic: Message) -> _ClusterTopic | _Refused:
        name = topic["name"]
        if why := context.objection(AclOperation.DELETE, name):
            context.deny([Denied("DELETE", "TOPIC", name, why)])
            return _Refused(DENIED["TOPIC"][0], why)
        if not _may_delete(context, name):
            return _undeleted(context, name)
        document = lookups.document(context, name)
        if document.mapped and (mover := _mover(document)) is None:
            moved.append(name)
            return _Refused(AWAY, None)
        cluster = _cluster(context, name, mover if document.mapped else document.fence)
        return _ClusterTopic(cluster, topic) if isinstance(cluster, str) else cluster

    moved: list[str] = []
    topics = [{"name": name} for name in request["topic_names"]]
    responses = yield from _ask(request, ApiKey.DELETE_TOPICS, topics, "responses", choose)
    if moved:
        # An operation deletes them, because their records are in several clusters and their map points there.
        result = yield DeleteMoved(context.user, tuple(moved[:MAX_MOVED]), request["timeout_ms"])
        outcomes = dict(zip(moved, result, strict=False))
        late = {"error_code": AWAY, "error_message": f"{MAX_MOVED} moved topics are deleted at a time; ask again"}
        responses = [
            response | outcomes.get(response["name"], late) if response["name"] in moved else response
            for response in responses
        ]
    return {"responses": responses}


def _may_delete(context: Context, name: str) -> bool:
    delete = AclOperation.DELETE
    return context.allows(delete, ResourceType.CLUSTER) or context.allows(delete, ResourceType.TOPIC, name)


def _undeleted(context: Context, name: str) -> _Refused:
    """Refusal for a visible topic that the client may not delete: controllers check first whether the topic exists."""
    there = not context.view.concealed(name)
    there = there and (lookups.document(context, name).mapped or bool(context.topology.existing(name)))
    if not there and not lookups.in_doubt(context):
        return _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    context.deny([Denied("DELETE", "TOPIC", name)])
    return _Refused(*DENIED["TOPIC"])


@handles(ApiKey.CREATE_PARTITIONS)
def create_partitions(context: Context, version: int, request: Message) -> Handler:
    """New partitions of a moved topic are created in its writer's cluster only.

    A partition that the map does not list never left the writer; older clusters have none of it. So none may be created
    while the writer changes. For a mirrored topic they are created in the standbys first: records of a partition that a
    standby does not have would have no copy.
    """
    too_many = _too_many(context, sum(_growth(context, topic) for topic in request["topics"]))
    ungrown = {} if too_many else (yield from _grow_standbys(context, request))

    def choose(topic: Message) -> _ClusterTopic | _Refused:
        if too_many:
            return too_many
        if topic["name"] in ungrown:
            return ungrown[topic["name"]]
        document = lookups.document(context, topic["name"])
        cluster = _cluster(context, topic["name"], _mover(document))
        return _assigned(context, cluster, topic) if isinstance(cluster, str) else cluster

    results = yield from _ask(request, ApiKey.CREATE_PARTITIONS, request["topics"], "results", choose)
    left = {result["name"] for result in results if lookups.may_have_left(context, result["name"])}
    again = "topic {} is being moved; try again when that has ended"
    return {
        "results": [
            _result(n, AWAY, again.format(n)) if (n := result["name"]) in left else result for result in results
        ]
    }


def _grow_standbys(context: Context, request: Message) -> Asking[dict[str, _Refused]]:
    """Gives the standbys of mirrored topics as many partitions; returns topics that failed in one → the error.

    Changes that the source would refuse are not tried: the standby would be left with more partitions for good.
    """
    refused: dict[str, _Refused] = {}
    times = _times(request["topics"])
    counts = {topic["name"]: topic["count"] for topic in request["topics"] if times[topic["name"]] == 1}
    mirrors = [
        mirror
        for mirror in context.view.mirrors.values()
        if mirror.topic in counts and not _mover(lookups.document(context, mirror.topic))
    ]
    if request["validate_only"]:
        return refused
    for side, only_try in (("source", True), ("target", False)):
        left = [mirror for mirror in mirrors if mirror.topic not in refused]
        if only_try:  # a source that is a copy itself is grown as a target, and may have grown already
            left = [mirror for mirror in left if not is_chained(context.view, mirror)]
        named = grouped((getattr(mirror, side), mirror.topic) for mirror in left)
        asks = {cluster: _growing(cluster, names, counts, request, only_try) for cluster, names in named.items()}
        for cluster, reply in (yield from ask_each(asks)).items():
            if isinstance(reply, ClusterUnavailableError):
                why = f"{reply}; topic {{}} is mirrored, and grows on both sides or on none. Unlink it to go on without"
                refused |= {name: _Refused(AWAY, why.format(name)) for name in named[cluster]}
                continue
            for result in reply["results"]:
                code = result["error_code"]
                if code and (only_try or code != ErrorCode.INVALID_PARTITIONS):  # the standby has that many already
                    refused[result["name"]] = _Refused(code, f"cluster {cluster}: {result['error_message'] or code}")
    return refused


def _growing(cluster: str, names: Iterable[str], counts: Mapping[str, int], request: Message, only_try: bool) -> Ask:
    """The brokers assign the partitions: broker ids in the request belong to one cluster only."""
    topics = [{"name": name, "count": counts[name], "assignments": None} for name in dict.fromkeys(names)]
    message = {"topics": topics, "timeout_ms": request["timeout_ms"], "validate_only": only_try}
    return Ask(cluster, Controller(), ApiKey.CREATE_PARTITIONS, message, lookups.wait_ms(request))


def _mover(document: Topic) -> Fence | Crossing | None:
    return document.fence or document.transaction_fence or document.crossing


def _times(topics: Iterable[Message]) -> Counter[str]:
    return Counter(topic["name"] for topic in topics)


def _ask(
    request: Message,
    api_key: int,
    topics: Sequence[Message],
    results: str,
    choose: Callable[[Message], _ClusterTopic | _Refused],
) -> Asking[list[Message]]:
    """Result of each topic, once per name: the answer of its cluster's controller, or the refusal."""
    times = _times(topics)
    answers: dict[str, Message] = {}
    wanted: dict[str, list[Message]] = {}
    for topic in topics:
        name = topic["name"]
        # As controllers answer: they cannot know which of the two is meant.
        twice = _Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        chosen = twice if times[name] > 1 else choose(topic)
        if isinstance(chosen, _Refused):
            answers[name] = _result(name, *chosen)
        else:
            answers[name] = _result(name, AWAY, "the cluster left this topic out of its answer")
            wanted.setdefault(chosen.cluster, []).append(chosen.topic)

    def message(topics: list[Message]) -> Message:
        by_name = api_key == ApiKey.DELETE_TOPICS
        named = {"topic_names": [topic["name"] for topic in topics]} if by_name else {}
        options: Message = {name: request[name] for name in ("timeout_ms", "validate_only") if name in request}
        return {"topics": topics, **options, **named}

    wait_ms = lookups.wait_ms(request)
    asks = {
        cluster: Ask(cluster, Controller(), api_key, message(topics), wait_ms) for cluster, topics in wanted.items()
    }
    for cluster, reply in (yield from ask_each(asks)).items():
        if isinstance(reply, ClusterUnavailableError):
            answers |= {topic["name"]: _result(topic["name"], AWAY, str(reply)) for topic in wanted[cluster]}
        else:
            answers |= {result["name"]: result for result in reply[results] if result["name"] in answers}
    return list(answers.values())


def _result(name: str, code: int, why: str | None) -> Message:
    return {"name": name, "error_code": code, "error_message": why}


def _unseen(context: Context) -> list[str]:
    clusters = context.topology.clusters
    return sorted(
        name
        for name, cluster in context.view.clusters.items()
        if not cluster.masked and (name not in clusters or not clusters[name].ever_reached)
    )


def _cluster(context: Context, topic: str, mover: Fence | Crossing | None) -> str | _Refused:
    """The cluster of an existing topic that clients see, unless it is being moved."""
    if context.view.concealed(topic):
        return _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, lookups.concealed(context, topic))
    if mover:
        why = f"topic {topic} is being moved by operation {mover.operation}; try again when it has ended"
        return _Refused(ErrorCode.POLICY_VIOLATION, why)
    return lookups.resolve(context, topic).cluster or _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def _assigned(context: Context, cluster: str, topic: Message) -> _ClusterTopic | _Refused:
    """The topic, its assignments with the cluster's own broker ids."""
    name, assignments = topic["name"], list[Message]()
    for assignment in topic["assignments"] or ():
        ids: list[int] = []
        for node_id in assignment["broker_ids"]:
            broker = lookups.real_broker(context, node_id)
            if broker is None or broker[0] != cluster:
                what = f"a broker of cluster {broker[0]}; topic {name} belongs to cluster {cluster}" if broker else None
                return _Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"node {node_id} is {what or 'not a broker'}")
            ids.append(broker[1])
        assignments.append(assignment | {"broker_ids": ids})
    return _ClusterTopic(cluster, topic if topic["assignments"] is None else topic | {"assignments": assignments})
