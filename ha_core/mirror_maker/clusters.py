"""Connects to the clusters of a flows' file, by Java clients' keys, for the admin's raw requests and for librdkafka."""

from collections.abc import Iterable
from typing import NamedTuple, Self

from ha_core.client_properties.connecting import connections
from ha_core.client_properties.key_stores import store_digests
from ha_core.client_properties.librdkafka import LibrdkafkaSettings
from ha_core.flows.configuration import ClusterConfig, Settings
from ha_core.flows.remarks import Remark
from ha_core.kafka.admin import Admin
from ha_core.kafka.brokers import DEFAULT_TIMEOUT_S
from ha_core.kafka.connection import CLIENT_ID


class FlowCluster(NamedTuple):
    """
    :ivar name: the cluster's alias.
    :ivar security: the file that has the cluster's keys.
    """

    name: str
    bootstrap: str
    security: str


class FlowClusters:
    """Makes connections to clusters by their aliases. Holds no open connection and no file, so it need not be closed.

    Key stores are read once, here; `renewed` finds those that were replaced. Secrets are in no text of it.
    """

    remarks: tuple[Remark, ...]
    """Keys without effect, and security keys of single clients (`consumer.ssl.…`) that differ from the plain ones."""

    def __init__(self, clusters: Iterable[ClusterConfig], name: str = "mm2.properties") -> None:
        """Read the keys and key stores of all clusters. Nothing connects.

        :param name: the file's name, for errors.
        :raises ConfigurationError: lists all keys of all clusters that cannot be used, each with its way out.
        """
        self._name, self._configs = name, tuple(clusters)
        self._digests = store_digests(self._properties())  # before the stores are read: none is replaced unseen
        self._connections, self.remarks = connections(self._properties(), name)

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self._connections)

    def renewed(self) -> Self | None:
        """These clusters, with the key stores as their files are now; None: the files are as they were.

        :raises ConfigurationError: one cannot be used, or not yet.
        """
        if store_digests(self._properties()) == self._digests:
            return None
        return type(self)(self._configs, self._name)

    def differs(self, other: Self, alias: str) -> bool:
        """Whether the cluster is reached in another way there."""
        return self._connections.get(alias) != other._connections.get(alias)

    def _properties(self) -> dict[str, Settings]:
        return {each.alias: each.client for each in self._configs}

    def admin(self, alias: str, timeout_s: float | None = None) -> Admin:
        """A new admin, which the caller closes. Its errors name the cluster by its alias.

        :param timeout_s: limit of each request; None: `request.timeout.ms`, else the admin's default.
        :raises KeyError: there is no such alias.
        """
        connection = self._connections[alias]
        if timeout_s is None:
            timeout_ms = connection.request_timeout_ms
            timeout_s = DEFAULT_TIMEOUT_S if timeout_ms is None else timeout_ms / 1000
        cluster = FlowCluster(alias, connection.bootstrap, self._name)
        return Admin(cluster, connection.profile, timeout_s, connection.client_id or CLIENT_ID)

    def librdkafka(self, alias: str) -> LibrdkafkaSettings:
        """Settings for producers and consumers of confluent-kafka; each call makes a new dict. Its repr hides secrets.

        Values are strings and numbers, and for OAUTHBEARER a callback that reads the token's file.

        :raises KeyError: there is no such alias.
        """
        return self._connections[alias].librdkafka()
