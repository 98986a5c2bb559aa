"""Stand-in until the real one is merged."""

from collections.abc import Iterable
from typing import Any

from ha_core.flows.configuration import ClusterConfig, Remark
from ha_core.kafka.admin import Admin
from ha_core.model import Cluster


class FlowClusters:
    remarks: tuple[Remark, ...] = ()

    def __init__(self, clusters: Iterable[ClusterConfig], name: str = "mm2.properties") -> None:
        self._c = {c.alias: c for c in clusters}

    def admin(self, alias: str, timeout_s: float | None = None) -> Admin:
        return Admin(
            Cluster.model_construct(name=alias, bootstrap=",".join(self._c[alias].bootstrap)),
            timeout_s=timeout_s or 10.0,
        )

    def librdkafka(self, alias: str) -> dict[str, Any]:
        return {"bootstrap.servers": ",".join(self._c[alias].bootstrap)}
