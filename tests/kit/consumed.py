"""Parts of a consumed record. The client's types make them optional, but it always sets them."""

from confluent_kafka import Message


def place_of(record: Message) -> tuple[str, int, int]:
    """Topic, partition, offset."""
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def value_of(record: Message) -> bytes:
    """Value of a record that is no tombstone."""
    value = record.value()
    assert value is not None
    return value
