"""Quotas of clients as the brokers of a cluster have them."""

from typing import Any

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import refusal
from ha_core.plan.facts.clusters import BrokerQuotaEntity
from ha_core.wire.codes import ApiKey


class ClientQuotas(Brokers):
    def client_quotas(self, timeout_s: float | None = None) -> dict[BrokerQuotaEntity, dict[str, float]]:
        """Entity → key → value (KIP-546)."""
        asking = self.asking(timeout_s)

        def ask(connection: BlockingConnection) -> dict[str, Any]:
            return connection.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False})

        answer = asking.converse(None, ask)
        if code := answer["error_code"]:
            raise refusal(asking.cluster, "describe quotas of clients", code, answer["error_message"])
        return {
            tuple(sorted((part["entity_type"], part["entity_name"]) for part in entry["entity"])): {
                value["key"]: value["value"] for value in entry["values"]
            }
            for entry in answer["entries"] or ()
        }
