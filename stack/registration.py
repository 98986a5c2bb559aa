"""Registers the clusters of a stack in the control plane."""

from __future__ import annotations

from collections.abc import Iterable

from ha_core.model.cluster import Cluster
from ha_core.store.commits import StateChange
from ha_core.store.security import StoreSecurity
from ha_core.store.zookeeper import connect
from stack.kafka_part import KafkaCluster


def register_clusters(zookeeper: str, root: str, clusters: Iterable[KafkaCluster], security: StoreSecurity) -> None:
    """Write `/clusters/{name}` for each cluster in one revision; the first one is the default."""
    documents = [
        Cluster(
            name=one.name,
            bootstrap=one.bootstrap,
            security="none" if one.service_password is None else "sasl",
            default=number == 0,
        )
        for number, one in enumerate(clusters)
    ]
    store = connect(zookeeper, root=root, security=security)
    try:
        store.commit(
            StateChange(
                puts=tuple(documents),
                expected={(Cluster, one.name): None for one in documents},
                change_id="stack:clusters",
                operation=None,
                epoch=None,
            )
        )
    finally:
        store.close()
