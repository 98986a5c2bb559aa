"""Errors between an operation and a cluster. Every text names cluster, address or thing, and the way out."""

from ha_core.wire.codes import ErrorCode, name_of


class KafkaAdminError(Exception):
    """Base class of these errors; any other exception from this package is a bug in it."""

    def __init__(self, cluster: str, text: str) -> None:
        super().__init__(f"Cluster {cluster}: {text}")
        self.cluster = cluster


class AtAddressError(KafkaAdminError):
    """`address` is the `host:port` (or several) that were tried."""

    def __init__(self, cluster: str, address: str, text: str) -> None:
        super().__init__(cluster, f"{address} {text}")
        self.address = address


class ClusterUnreachableError(AtAddressError):
    """No connection, or no answer in time."""


class ConnectionLostError(ClusterUnreachableError):
    """The broker closed an open connection: worth one retry on a new one."""


class AuthenticationRefusedError(AtAddressError):
    """The cluster refuses the account of the security profile."""


class TlsRefusedError(AuthenticationRefusedError):
    """One side rejects the other's certificate, or the peer does not speak TLS."""


class NotKafkaError(AtAddressError):
    """The peer at the address does not speak Kafka's protocol, or speaks TLS."""


class UnsupportedByClusterError(KafkaAdminError):
    """The brokers' version lacks a required request."""


class NotAuthorisedError(KafkaAdminError):
    """The account lacks a right."""


class RequestRefusedError(KafkaAdminError):
    """A broker refused a request for good."""


class NotReadyError(KafkaAdminError):
    """Brokers were not ready (no leader, coordinator loading …) until the timeout."""


class TopicMissingError(KafkaAdminError):
    """A topic or partition does not exist."""


class StandsInTheWayError(KafkaAdminError):
    """Unexpected contents of the cluster: another shape of a topic, records, live members or commits."""


class GroupNotStableError(KafkaAdminError):
    """A group is rebalancing: its members hold no assignment that could be kept."""


class TakenOverError(KafkaAdminError):
    """Another copier has taken the partition over: this one stops, without a fault."""


class SecurityProfileError(ValueError):
    """A security profile is missing, incomplete or unreadable."""


def refusal(cluster: str, what: str, code: int, message: str | None = None) -> KafkaAdminError:
    """The error for a code that is not retriable; `what` is a phrase such as 'commit offsets of group g'."""
    if code in _RIGHTS:  # their messages repeat the code, or show a request of the broker's that is new each time
        return NotAuthorisedError(
            cluster, f"may not {what}: {name_of(code)}. Give the service account the {_RIGHTS[ErrorCode(code)]}."
        )
    reason = f"{name_of(code)}{': ' + message if message else ''}"
    return RequestRefusedError(cluster, f"could not {what}: {reason}.")


_RIGHTS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "rights Describe, DescribeConfigs, AlterConfigs, Read, Create, Alter and Delete on the topic"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "rights Describe, Read and Delete on the group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "rights Describe and Write on the transactional id, or its prefix",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "rights Describe, DescribeConfigs, Create and, for ACLs, Alter on the cluster"
    ),
}
