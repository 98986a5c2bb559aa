"""Errors of librdkafka's consumers that read assigned partitions."""

from confluent_kafka.cimpl import KafkaError


def stops_reading(error: KafkaError) -> bool:
    """Whether the error ends the read. A missing right on the consumer's group does not: a consumer with assigned
    partitions needs none, though librdkafka looks for the group's coordinator anyway."""
    return bool(error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED)
