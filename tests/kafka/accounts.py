"""Accounts of the stack's clusters that want a login, and what brokers say to an ordinary one."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer

from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from stack.kafka_part import ORDINARY_USER


def ordinary(running: Stack) -> SecurityProfile:
    """Of an account that is no super user."""
    assert running.service is not None
    return SecurityProfile("PLAIN", ORDINARY_USER, running.service["password"])


def error_of_writing(running: Stack, cluster: str, topic: str) -> int | None:
    """What a broker says to a record of that account, which passes no gateway; None: it has taken it."""
    account, told = ordinary(running), list[int | None]()

    def answered(error: KafkaError | None, _: Message) -> None:
        told.append(None if error is None else error.code())

    producer = Producer(
        {
            "bootstrap.servers": running.clusters[cluster]["bootstrap"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": account.username,
            "sasl.password": account.password,
            "enable.idempotence": False,
        }
    )
    producer.produce(topic, value=b"x", on_delivery=answered)
    assert producer.flush(30) == 0
    return told[0]
