"""Which handler composes the answer of which API."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.composed.acls import create_acls, delete_acls, describe_acls
from gateway.composed.ask import Context, Handler, Message
from gateway.composed.cluster import describe_cluster
from gateway.composed.configs import alter_configs, describe_configs, incremental_alter_configs
from gateway.composed.coordinator import find_coordinator
from gateway.composed.delete_records import delete_records
from gateway.composed.end_transaction import end_transaction
from gateway.composed.groups_admin import (
    delete_groups,
    describe_consumer_groups,
    describe_groups,
    list_groups,
    offset_delete,
)
from gateway.composed.leader_epoch import offset_for_leader_epoch
from gateway.composed.list_offsets import list_offsets
from gateway.composed.metadata import metadata
from gateway.composed.topics_admin import create_partitions, create_topics, delete_topics
from gateway.composed.transactions_admin import describe_producers, describe_transactions, list_transactions
from ha_core.wire.codes import ApiKey

Compose = Callable[[Context, int, Message], Handler]

_HANDLERS: Mapping[int, Compose] = {
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.CONSUMER_GROUP_DESCRIBE: describe_consumer_groups,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DELETE_RECORDS: delete_records,
    # Only of what began in another cluster than its coordinator's node is in.
    ApiKey.END_TXN: end_transaction,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
}


def handler(api_key: int) -> Compose:
    """The handler `(context, version, request) → generator` of an API.

    :raises KeyError: the API is not composed; the policy table and this one have drifted apart.
    """
    try:
        return _HANDLERS[api_key]
    except KeyError:
        raise KeyError(f"API {api_key} has no composed handler; the policy must not call it composed") from None
