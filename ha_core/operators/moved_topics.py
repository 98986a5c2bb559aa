"""Topics that a task has moved, for programs: asset events of Airflow, and datasets of OpenLineage.

DAGs may be scheduled on a topic that arrives in a cluster, `Asset("kafka://west/orders")`, or on all moves, by the
alias. A task that is repeated emits its events again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from ha_core.model import MoveOperation
    from ha_core.operations.engine.environment import Environment

MOVED = AssetAlias("switchyard-moved-topics")
OUTLETS: dict[str, Any] = {"outlets": [MOVED]}
"""For tasks that move topics."""
MAX_EVENTS = 1_000
"""A task emits no more: Airflow writes its events in the transaction that ends it."""
log = logging.getLogger("switchyard.airflow")


class ArrivedTopic(NamedTuple):
    topic: str
    origin: str
    target: str
    operation: str


def uri(cluster: str, topic: str) -> str:
    return f"kafka://{cluster}/{topic}"


def moved_by(operations: Iterable[MoveOperation]) -> list[ArrivedTopic]:
    return [
        ArrivedTopic(topic, operation.request.origin, operation.request.target, operation.id)
        for operation in operations
        for topic in operation.moving
        if topic not in operation.evidence.stayed
    ]


class MovesTopics:
    """A task that moves topics tells Airflow which, and OpenLineage if its provider is installed."""

    context: Any
    environment: Environment

    def note_moved(self, operations: Iterable[MoveOperation]) -> None:
        """Emit the events, and keep the topics for OpenLineage. The move has ended: an error here must not fail it."""
        try:
            self._moved_topics = moved_by(operations)
            self._bootstraps = {name: one.bootstrap for name, one in self.environment.store.load().clusters.items()}
            _emit(self.context.get("outlet_events"), self._moved_topics)
        except Exception as error:
            log.warning("no asset events of the moved topics: %s", error)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Called by the provider of OpenLineage, with the names that it expects."""
        from airflow.providers.openlineage.extractors import OperatorLineage

        moved = [*islice(getattr(self, "_moved_topics", ()), MAX_EVENTS)]
        bootstraps: dict[str, str] = getattr(self, "_bootstraps", {})
        return OperatorLineage(
            inputs=[_dataset(one.origin, one.topic, bootstraps) for one in moved],
            outputs=[_dataset(one.target, one.topic, bootstraps) for one in moved],
        )


def _emit(accessors: Any, moved: Sequence[ArrivedTopic]) -> None:
    if accessors is None:
        return
    for one in moved[:MAX_EVENTS]:
        extra = {"operation": one.operation, "from": one.origin, "to": one.target}
        accessors[MOVED].add(Asset(uri(one.target, one.topic)), extra=extra)
    if (more := len(moved) - MAX_EVENTS) > 0:
        log.warning("%d of %d moved topics have no asset event: a task emits at most %d", more, len(moved), MAX_EVENTS)


def _dataset(cluster: str, topic: str, bootstraps: dict[str, str]) -> Any:
    """The cluster's name is the namespace; the address of its first broker, which OpenLineage names Kafka's datasets
    by, is a further name of it."""
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import symlinks_dataset

    first = bootstraps.get(cluster, "").partition(",")[0]
    address = symlinks_dataset.Identifier(namespace=f"kafka://{first}", name=topic, type="TOPIC")
    facets = {"symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[address])} if first else {}
    return Dataset(namespace=f"kafka://{cluster}", name=topic, facets=facets)
