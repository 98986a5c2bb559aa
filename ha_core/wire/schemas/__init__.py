"""The messages of every API that the codec reads and writes; `tables` explains the notation."""

from ha_core.wire.schemas import (
    acls,
    cluster,
    configs,
    group_offsets,
    groups,
    offsets,
    produce_fetch,
    quotas,
    sasl,
    topics,
    transactions,
)
from ha_core.wire.tables import Schema

_MODULES = (produce_fetch, offsets, cluster, groups, group_offsets, transactions, topics, configs, acls, quotas, sasl)

SCHEMAS: dict[int, Schema] = {key: schema for module in _MODULES for key, schema in module.SCHEMAS.items()}
