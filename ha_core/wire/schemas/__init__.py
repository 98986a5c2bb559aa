"""The messages of every API that the codec reads and writes; `tables` explains the notation."""

from ha_core.wire.schemas import acls, cluster, groups, produce_fetch, topics, transactions
from ha_core.wire.tables import Schema

_MODULES = (produce_fetch, cluster, groups, transactions, topics, acls)

SCHEMAS: dict[int, Schema] = {key: schema for module in _MODULES for key, schema in module.SCHEMAS.items()}
