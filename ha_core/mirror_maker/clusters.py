"""The way to the clusters of a flows' file: Java clients' keys for the admin's raw requests and for librdkafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ha_core.flows.configuration import ClusterConfig, Remark
from ha_core.kafka.admin import Admin


class FlowClusters:
    """Connections to clusters by their aliases. Holds no connection, and no file on disk; need not be closed.

    Key stores are read once, here. Secrets are in no text of it.
    """

    remarks: tuple[Remark, ...]
    """Keys without effect, and security keys of single clients (`consumer.ssl.…`) that differ from the plain ones."""

    def __init__(self, clusters: Iterable[ClusterConfig], name: str = "mm2.properties") -> None:
        """Connects nowhere.

        :param name: of the file, for errors.
        :raises ConfigurationError: all keys of all clusters that cannot be used, each with its way out.
        """
        raise NotImplementedError

    @property
    def aliases(self) -> tuple[str, ...]:
        raise NotImplementedError

    def admin(self, alias: str, timeout_s: float | None = None) -> Admin:
        """A new admin, which the caller closes. Its errors name the alias as it is.

        :param timeout_s: limit of each request; None: `request.timeout.ms`, else the admin's own default.
        :raises KeyError: no such alias.
        """
        raise NotImplementedError

    def librdkafka(self, alias: str) -> dict[str, Any]:
        """Settings for producers and consumers of confluent-kafka, a new dict at each call. Its repr hides secrets.

        Values are texts and numbers, and for OAUTHBEARER a callback, which needs `poll` or `flush` to be called.
        :raises KeyError: no such alias.
        """
        raise NotImplementedError
