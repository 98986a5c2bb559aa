"""Users and access rules as the brokers of a cluster have them. No request returns secrets or keys of a password."""

from typing import Any

from ha_core.kafka.access import ALL_TOPIC_RULES, ANY
from ha_core.kafka.brokers import Brokers
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import refusal
from ha_core.plan.facts.clusters import BrokerAcl
from ha_core.wire.codes import ApiKey, ErrorCode

_ALL_RULES = {**ALL_TOPIC_RULES, "resource_type_filter": ANY}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class BrokerAccounts(Brokers):
    def all_rules(self, timeout_s: float | None = None) -> frozenset[BrokerAcl] | None:
        """All ACLs; None: the cluster has no authorizer."""
        asking = self.asking(timeout_s)
        answer = asking.call(None, ApiKey.DESCRIBE_ACLS, _ALL_RULES)
        if answer["error_code"] == ErrorCode.SECURITY_DISABLED:
            return None
        if code := answer["error_code"]:
            raise refusal(asking.cluster, "read the ACLs", code, answer["error_message"])
        return frozenset(
            BrokerAcl(
                resource["resource_type"],
                resource["pattern_type"],
                resource["resource_name"],
                rule["principal"],
                rule["host"],
                rule["operation"],
                rule["permission_type"],
            )
            for resource in answer["resources"]
            for rule in resource["acls"]
        )

    def scram_users(self, timeout_s: float | None = None) -> dict[str, tuple[str, ...]]:
        """User → its SCRAM mechanisms (KIP-554)."""
        asking = self.asking(timeout_s)

        def ask(connection: BlockingConnection) -> dict[str, Any]:
            return connection.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None})

        answer = asking.converse(None, ask)
        for result in (answer, *answer["results"]):
            if code := result["error_code"]:
                raise refusal(asking.cluster, "describe SCRAM users", code, result["error_message"])
        return {
            result["user"]: tuple(
                sorted(
                    _MECHANISMS.get(one["mechanism"], f"mechanism {one['mechanism']}")
                    for one in result["credential_infos"]
                )
            )
            for result in answer["results"]
        }
