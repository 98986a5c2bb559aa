"""Whether a cluster can take part in an operation: asked before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.connection import Connection
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import (
    AuthenticationRefusedError,
    ClusterUnreachableError,
    KafkaAdminError,
    NotAuthorisedError,
    NotKafkaError,
)
from ha_core.kafka.groups import Coordinators
from ha_core.model import legal_name
from ha_core.wire.codes import ApiKey

_WATCHED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_PRODUCERS,
)
_RIGHTS_NOT_TOLD = -(1 << 31)
# bit of the operation (AclOperation) in the answer, its name
_ON_TOPIC = ((3, "Read"), (8, "Describe"), (10, "DescribeConfigs"))
_ON_GROUP = ((3, "Read"), (8, "Describe"))
_REFUSALS = (AuthenticationRefusedError, NotAuthorisedError, NotKafkaError)


@dataclass(frozen=True, slots=True)
class Probe:
    """What one look at a cluster found."""

    reachable: bool
    error: str = ""
    """The whole text for people where it is not reachable."""
    refused: bool = False
    """Something answers but does not take the account: not the same as dead."""
    answers: bool = False
    """Something answers, whatever else is wrong. Only transport errors at every address say that nothing does."""
    brokers: Mapping[int, str] = field(default_factory=dict)
    """Node id → `host:port`, as the cluster advertises it."""
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """API name → (oldest, newest) that every broker offers."""
    cluster_id: str = ""
    """Which the brokers have given themselves; empty where nothing answers."""
    lacking: tuple[str, ...] = ()
    """Rights on existing topics and groups that the account lacks: `Read on topic x`."""

    @property
    def describe_producers(self) -> bool:
        return ApiKey.DESCRIBE_PRODUCERS.name in self.versions


def probe(brokers: Brokers, topics: Collection[str], groups: Collection[str], deadline: Deadline) -> Probe:
    """Asks every broker; what is wrong is in the answer, not raised.

    Whether topics may be created only the attempt shows: rights on name patterns are not told.
    """
    advertised: dict[int, str] = {}
    try:
        # Names that no topic can have are not asked for: brokers that are healthy would refuse them.
        answer = brokers.metadata([name for name in topics if legal_name(name)], deadline, rights=True)
        advertised = {node: f"{host}:{port}" for node, (host, port) in sorted(brokers.nodes.items())}
        offers = brokers.on_each({node: partial(_offer, brokers, node, deadline) for node in advertised})
        versions: dict[str, tuple[int, int]] | None = None
        for offer in offers.values():
            if isinstance(offer, KafkaAdminError):
                raise offer
            versions = offer if versions is None else _common(versions, offer)
        lacking = [
            text
            for topic in answer["topics"]
            for text in _missing(topic["topic_authorized_operations"], _ON_TOPIC, f"topic {topic['name']}")
        ]
        lacking += _group_rights(brokers, groups, deadline)
    except KafkaAdminError as error:
        answers = bool(advertised) or not isinstance(error, ClusterUnreachableError)
        return Probe(False, str(error), isinstance(error, _REFUSALS), answers, advertised)
    return Probe(
        True,
        answers=True,
        brokers=advertised,
        versions=versions or {},
        cluster_id=answer["cluster_id"] or "",
        lacking=tuple(lacking),
    )


def _offer(brokers: Brokers, node: int, deadline: Deadline) -> dict[str, tuple[int, int]]:
    def talk(connection: Connection) -> dict[str, tuple[int, int]]:
        # A question, because what was said when a warm connection was opened does not prove that the broker lives.
        connection.call(ApiKey.METADATA, {"topics": [], "allow_auto_topic_creation": False}, deadline, 9)
        return {api.name: connection.versions[api] for api in _WATCHED if api in connection.versions}

    return brokers.converse(node, talk, deadline)


def _common(one: Mapping[str, tuple[int, int]], other: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    both = {key: (max(one[key][0], other[key][0]), min(one[key][1], other[key][1])) for key in one if key in other}
    return {key: (oldest, newest) for key, (oldest, newest) in both.items() if oldest <= newest}


def _group_rights(brokers: Brokers, groups: Collection[str], deadline: Deadline) -> list[str]:
    def ask(node: int, asked: list[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
        body = {"groups": asked, "include_authorized_operations": True}
        answer = brokers.call(node, ApiKey.DESCRIBE_GROUPS, body, deadline)
        return {
            one["group_id"]: _missing(one["authorized_operations"], _ON_GROUP, f"group {one['group_id']}")
            for one in answer["groups"]
        }, {}

    found = brokers.rounds("read the rights on groups", groups, Coordinators(brokers, deadline).locate, ask, deadline)
    return [text for group in sorted(found) for text in found[group]]


def _missing(granted: int, needed: tuple[tuple[int, str], ...], where: str) -> list[str]:
    if granted == _RIGHTS_NOT_TOLD:
        return []
    return [f"{name} on {where}" for bit, name in needed if not granted >> bit & 1]
