"""The one Kafka admin adapter: what an operation reads of clusters and does to them."""

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import (
    AuthenticationRefusedError,
    ClusterUnreachableError,
    ConnectionLostError,
    GroupInUseError,
    GroupNotStableError,
    KafkaAdminError,
    NotAuthorisedError,
    NotKafkaError,
    NotSettledError,
    OffsetsNotTakenError,
    RequestRefusedError,
    SecurityProfileError,
    TopicMismatchError,
    TopicMissingError,
    TopicNotEmptyError,
    UnsupportedByClusterError,
)
from ha_core.kafka.facts import (
    Adopted,
    CreatedTopics,
    GroupDescription,
    LogEnds,
    MemberDescription,
    RecordTimes,
    TopicSpec,
)
from ha_core.kafka.group_offsets import Committed
from ha_core.kafka.probe import Probe
from ha_core.kafka.security import NO_SECURITY, load_profiles, profiles
from ha_core.kafka.topics import TopicDescription
from ha_core.plan.facts import Partition, ProducerFacts
from ha_core.wire.sasl import SecurityProfile

__all__ = [
    "NO_SECURITY",
    "Admin",
    "Adopted",
    "AuthenticationRefusedError",
    "ClusterUnreachableError",
    "Committed",
    "ConnectionLostError",
    "CreatedTopics",
    "GroupDescription",
    "GroupInUseError",
    "GroupNotStableError",
    "KafkaAdminError",
    "LogEnds",
    "MemberDescription",
    "NotAuthorisedError",
    "NotKafkaError",
    "NotSettledError",
    "OffsetsNotTakenError",
    "Partition",
    "Probe",
    "ProducerFacts",
    "RecordTimes",
    "RequestRefusedError",
    "SecurityProfile",
    "SecurityProfileError",
    "TopicDescription",
    "TopicMismatchError",
    "TopicMissingError",
    "TopicNotEmptyError",
    "TopicSpec",
    "UnsupportedByClusterError",
    "load_profiles",
    "profiles",
]
