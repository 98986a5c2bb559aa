"""Accounts of the stack's clusters that require a login, and brokers' answers to an ordinary account."""

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.harness import Stack
from stack.kafka_part import ORDINARY_USER


def ordinary(running: Stack) -> SecurityProfile:
    """An account that is no super user."""
    assert running.service is not None
    return SecurityProfile("PLAIN", ORDINARY_USER, running.service["password"], principal=f"User:{ORDINARY_USER}")


def another(running: Stack, cluster: str, user: str) -> SecurityProfile:
    """A newly created account, no super user either."""
    assert running.service is not None
    service = SecurityProfile("PLAIN", running.service["user"], running.service["password"])
    admin = AdminClient({"bootstrap.servers": running.clusters[cluster]["bootstrap"], **client_settings(service)})
    password = running.service["password"]
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    made = UserScramCredentialUpsertion(user, info, password.encode())
    admin.alter_user_scram_credentials([made])[user].result(30)
    return SecurityProfile("SCRAM-SHA-256", user, password, principal=f"User:{user}")


def error_of_writing(running: Stack, cluster: str, topic: str, account: SecurityProfile | None = None) -> int | None:
    """A broker's error for a record that an account writes past the gateways; None: it was accepted.

    :param account: None: the ordinary one.
    """
    told = list[int | None]()

    def answered(error: KafkaError | None, _: Message) -> None:
        told.append(None if error is None else error.code())

    producer = Producer(
        {
            "bootstrap.servers": running.clusters[cluster]["bootstrap"],
            **client_settings(account or ordinary(running)),
            "enable.idempotence": False,
        }
    )
    producer.produce(topic, value=b"x", on_delivery=answered)
    assert producer.flush(30) == 0
    return told[0]
