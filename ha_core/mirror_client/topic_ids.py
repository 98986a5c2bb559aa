"""Reads topic ids, by librdkafka."""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from ha_core.flows.errors import MirrorClientError

_HALF = (1 << 64) - 1


def topic_ids(settings: Mapping[str, Any], topics: Collection[str], timeout_s: float) -> dict[str, str]:
    """Topic → its id in hexadecimal; "": the brokers have no topic ids. Topics that do not exist are missing.

    :raises MirrorClientError: the cluster does not answer.
    """
    if not topics:
        return {}
    admin = AdminClient({"log_level": 3} | dict(settings))
    found: dict[str, str] = {}
    try:
        existing = set(admin.list_topics(timeout=timeout_s).topics) & set(topics)
        asked = admin.describe_topics(TopicCollection(sorted(existing)), request_timeout=timeout_s) if existing else {}
        for topic, described in asked.items():
            id_ = described.result(timeout_s).topic_id
            high, low = (half & _HALF for half in (id_.get_most_significant_bits(), id_.get_least_significant_bits()))
            found[topic] = f"{high:016x}{low:016x}" if high or low else ""
    except KafkaException as error:
        raise MirrorClientError(f"the topics cannot be described: {error.args[0].str()}") from None
    return found
