"""Errors of librdkafka's consumers that read by assignment."""

from confluent_kafka.cimpl import KafkaError


def stops_reading(error: KafkaError) -> bool:
    """False for errors of the consumer's group, which librdkafka looks for all the same: readers by assignment need no
    right on any group."""
    return bool(error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED)
