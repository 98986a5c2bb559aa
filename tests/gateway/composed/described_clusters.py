"""Clusters that answer METADATA, and requests for it."""

from typing import Any

from gateway.composed.ask import Ask
from ha_core.wire.codes import ApiKey
from tests.gateway.composed.playbook import requested

UNKNOWN_TOPIC = 3


def cluster(name: str, **topics: int) -> Any:
    """A cluster that holds these topics, one partition with the given leader each, and answers questions."""

    def answer(ask: Ask) -> dict[str, Any]:
        wanted = ask.message["topics"]
        names = sorted(topics) if wanted is None else [topic["name"] for topic in wanted]
        made = {n: 1 for n in names if ask.message["allow_auto_topic_creation"]} | topics
        brokers = [{"node_id": n, "host": name, "port": 9092, "rack": f"{name}-{n}"} for n in (1, 2)]
        return {
            "brokers": brokers,
            "cluster_id": "real",
            "controller_id": 2,
            "topics": [_topic(n, made[n]) if n in made else {"name": n, "error_code": UNKNOWN_TOPIC} for n in names],
        }

    return answer


def _topic(name: str, leader: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "leader_id": leader, "leader_epoch": 7, "replica_nodes": [1, 2]}
    return {
        "name": name,
        "topic_id": b"0123456789abcdef",
        "partitions": [partition | {"isr_nodes": [leader], "offline_replicas": [2]}],
    }


def ask(*names: str, create: bool = False, version: int = 9) -> dict[str, Any]:
    return requested(ApiKey.METADATA, version, topics=[{"name": n} for n in names], allow_auto_topic_creation=create)


def everything(version: int = 9) -> dict[str, Any]:
    return requested(ApiKey.METADATA, version, topics=None)
