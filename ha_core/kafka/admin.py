"""The only way to administer a cluster.

A method is one question, and each base class has those about one subject. A task of several requests in order
(adoption, verifying) is a function of an `Admin`.

All requests are raw: `docs/design/kafka-clients.md` says for each what confluent-kafka's AdminClient lacks, and why the
questions are methods of one class.
"""

from ha_core.kafka.access import Access
from ha_core.kafka.accounts import BrokerAccounts
from ha_core.kafka.copies import CopiesOfMirrors
from ha_core.kafka.creation import TopicCreation
from ha_core.kafka.deletion import TopicDeletion
from ha_core.kafka.groups import Groups
from ha_core.kafka.probe import Probing
from ha_core.kafka.producers import Producers
from ha_core.kafka.quotas import ClientQuotas
from ha_core.kafka.topics import Topics


class Admin(
    Probing,
    Topics,
    TopicCreation,
    TopicDeletion,
    Producers,
    Groups,
    Access,
    BrokerAccounts,
    ClientQuotas,
    CopiesOfMirrors,
):
    """One cluster. Connects at the first request and keeps its connections open; thread-safe; must be closed.

    `CopiesOfMirrors` includes leaders, ends and times of logs (`Offsets`), and takeovers. Every method takes at most
    `timeout_s` (of the call, else of the object) and raises `KafkaAdminError`s.
    """
