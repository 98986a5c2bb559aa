"""Checks whether a cluster can take part in an operation, before anything is changed."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ha_core.kafka.brokers import RIGHTS_NOT_TOLD, Asking, Brokers
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import (
    AuthenticationRefusedError,
    ClusterUnreachableError,
    KafkaAdminError,
    NotAuthorisedError,
    NotKafkaError,
)
from ha_core.kafka.groups import at_coordinators
from ha_core.model import legal_name
from ha_core.wire.codes import ApiKey

# bit of the operation (AclOperation) in the answer, and its name
_ON_TOPIC = ((3, "Read"), (8, "Describe"), (10, "DescribeConfigs"))
_ON_GROUP = ((3, "Read"), (8, "Describe"))
_ON_CLUSTER = ((8, "Describe"),)
_LAST_WITH_RIGHTS = 10
"""Last METADATA version that has rights on the cluster."""
_REFUSALS = (AuthenticationRefusedError, NotAuthorisedError, NotKafkaError)


@dataclass(frozen=True, slots=True)
class Probe:
    """Result of one check of a cluster."""

    reachable: bool
    error: str = ""
    """The error for people if it is not reachable."""
    refused: bool = False
    """The cluster answers, but refuses the account: it is not dead."""
    answers: bool = False
    """The cluster answers, whatever else is wrong. False only after transport errors at every address."""
    brokers: Mapping[int, str] = field(default_factory=dict)
    """Node id → `host:port`, as the cluster advertises it."""
    describe_producers: bool = False
    """Every broker offers DESCRIBE_PRODUCERS (Kafka 2.8 and newer)."""
    cluster_id: str = ""
    """Assigned by the brokers; empty if none answers."""
    lacking: tuple[str, ...] = ()
    """Rights on existing topics and groups that the account lacks: `Read on topic x`."""


class Probing(Brokers):
    def probe(
        self, topics: Collection[str] = (), groups: Collection[str] = (), timeout_s: float | None = None
    ) -> Probe:
        """Asks every broker, and for rights; problems are returned, not raised.

        Only an attempt shows whether topics may be created: brokers do not report rights on name patterns.
        """
        asking = self.asking(timeout_s)
        advertised: dict[int, str] = {}
        try:
            # Illegal topic names are left out: healthy brokers would refuse them.
            answer = asking.metadata([name for name in topics if legal_name(name)], rights=True)
            advertised = {node: f"{host}:{port}" for node, (host, port) in sorted(asking.nodes.items())}
            offers = asking.on_each(advertised, lambda node: asking.converse(node, _describes_producers))
            for offer in offers:
                if isinstance(offer, KafkaAdminError):
                    raise offer
            lacking = [
                text
                for topic in answer["topics"]
                for text in _missing(topic["topic_authorized_operations"], _ON_TOPIC, f"topic {topic['name']}")
            ]
            lacking += _group_rights(asking, groups)
        except KafkaAdminError as error:
            answers = bool(advertised) or not isinstance(error, ClusterUnreachableError)
            return Probe(False, str(error), isinstance(error, _REFUSALS), answers, advertised)
        return Probe(
            True,
            answers=True,
            brokers=advertised,
            describe_producers=all(offers),
            cluster_id=answer["cluster_id"] or "",
            lacking=tuple(lacking),
        )

    def hides_groups(self, timeout_s: float | None = None) -> bool:
        """Whether brokers list only groups that the account may describe by name: it lacks Describe on the cluster.
        They do so without an error."""

        def ask(connection: BlockingConnection) -> dict[str, Any]:
            # Brokers before 2.8 tell it in METADATA, those from 4.0 on only in DESCRIBE_CLUSTER (KIP-700).
            asked: dict[str, Any] = {"include_cluster_authorized_operations": True}
            if ApiKey.DESCRIBE_CLUSTER in connection.client.versions:
                return connection.call(ApiKey.DESCRIBE_CLUSTER, asked)
            asked |= {"topics": [], "allow_auto_topic_creation": False}
            return connection.call(ApiKey.METADATA, asked, _LAST_WITH_RIGHTS)

        granted = self.asking(timeout_s).converse(None, ask)["cluster_authorized_operations"]
        return bool(_missing(granted, _ON_CLUSTER, "the cluster"))


def _describes_producers(connection: BlockingConnection) -> bool:
    # A request, because the versions of an open connection do not prove that the broker is alive.
    connection.call(ApiKey.METADATA, {"topics": [], "allow_auto_topic_creation": False}, 9)
    return ApiKey.DESCRIBE_PRODUCERS in connection.client.versions


def _group_rights(asking: Asking, groups: Collection[str]) -> list[str]:
    def ask(node: int, names: list[str]) -> Iterator[tuple[str, list[str]]]:
        message = {"groups": names, "include_authorized_operations": True}
        for group in asking.call(node, ApiKey.DESCRIBE_GROUPS, message)["groups"]:
            yield group["group_id"], _missing(group["authorized_operations"], _ON_GROUP, f"group {group['group_id']}")

    found = at_coordinators(asking, "read the rights on groups", groups, ask)
    return [text for group in sorted(found) for text in found[group]]


def _missing(granted: int, needed: tuple[tuple[int, str], ...], where: str) -> list[str]:
    if granted == RIGHTS_NOT_TOLD:
        return []
    return [f"{name} on {where}" for bit, name in needed if not granted >> bit & 1]
