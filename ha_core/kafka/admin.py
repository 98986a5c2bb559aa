"""The only way to administer a cluster.

A method is one question. A task of several requests in order (adoption, takeover, verifying) is a function of an
`Admin`.

All requests are raw: `docs/design/kafka-clients.md` says for each what confluent-kafka's AdminClient lacks.
"""

from __future__ import annotations

from ha_core.kafka.access import Access
from ha_core.kafka.alteration import TopicAlteration
from ha_core.kafka.creation import TopicCreation
from ha_core.kafka.deletion import TopicDeletion
from ha_core.kafka.group_offsets import GroupOffsets
from ha_core.kafka.groups import Groups
from ha_core.kafka.offsets import Offsets
from ha_core.kafka.probe import Probing
from ha_core.kafka.producers import Producers
from ha_core.kafka.record_times import Times
from ha_core.kafka.seeding import Seeding
from ha_core.kafka.topics import Topics


class Admin(
    Probing,
    Topics,
    TopicCreation,
    TopicAlteration,
    TopicDeletion,
    Offsets,
    Times,
    Producers,
    Groups,
    GroupOffsets,
    Access,
    Seeding,
):
    """One cluster. Connects at the first request and keeps its connections open; thread-safe; must be closed.

    Every method takes at most `timeout_s` (of the call, else of the object) and raises `KafkaAdminError`s.
    """
