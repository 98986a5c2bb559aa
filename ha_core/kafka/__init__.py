"""The one Kafka admin adapter: what an operation reads of clusters and does to them."""

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import (
    AuthenticationRefusedError,
    ClusterUnreachableError,
    GroupNotStableError,
    KafkaAdminError,
    NotAuthorisedError,
    NotKafkaError,
    RequestRefusedError,
    SecurityProfileError,
    StandsInTheWayError,
    TopicMissingError,
    UnsupportedByClusterError,
)
from ha_core.kafka.facts import (
    Adopted,
    GroupDescription,
    LogEnds,
    MemberDescription,
    RecordTimes,
    TopicSpec,
)
from ha_core.kafka.group_offsets import Committed
from ha_core.kafka.security import NO_SECURITY, load_profiles, profiles
from ha_core.kafka.topics import TopicDescription
from ha_core.plan.facts import Partition
from ha_core.wire.sasl import SecurityProfile

__all__ = [
    "NO_SECURITY",
    "Admin",
    "Adopted",
    "AuthenticationRefusedError",
    "ClusterUnreachableError",
    "Committed",
    "GroupDescription",
    "GroupNotStableError",
    "KafkaAdminError",
    "LogEnds",
    "MemberDescription",
    "NotAuthorisedError",
    "NotKafkaError",
    "Partition",
    "RecordTimes",
    "RequestRefusedError",
    "SecurityProfile",
    "SecurityProfileError",
    "StandsInTheWayError",
    "TopicDescription",
    "TopicMissingError",
    "TopicSpec",
    "UnsupportedByClusterError",
    "load_profiles",
    "profiles",
]
