"""What is known of clusters, recorded while they answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ha_core.operators.base import Context, SwitchyardOperator
from ha_core.operators.known_clusters import propose


class RecordKnownOperator(SwitchyardOperator):
    """Records in ZooKeeper what each cluster holds now; what was known of one that does not answer stays."""

    def work(self, context: Context) -> list[dict[str, Any]]:
        """The looks: cluster, at, topics, partitions, groups, error."""
        from ha_core.operations.last_seen import record

        with self.environment(context) as environment:
            looks = record(environment)
            names = environment.store.load().clusters
        if propose(names):
            self.log.info("forms propose these clusters from now on: %s", ", ".join(sorted(names)) or "none")
        return [asdict(look) for look in looks]
