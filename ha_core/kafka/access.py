"""Access rules for topics (ACLs), where a cluster has an authoriser."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.errors import refusal
from ha_core.plan.facts import AccessRule
from ha_core.wire.codes import ApiKey, ErrorCode

_ANY = 1
_TOPIC_RESOURCE = 2
_DENY, _ALLOW = 2, 3
_PATTERNS: dict[int, Literal["literal", "prefixed"]] = {3: "literal", 4: "prefixed"}
_NUMBERS = {pattern: number for number, pattern in _PATTERNS.items()}
_MAX_PER_REQUEST = 500


class Access(Brokers):
    def access_rules(self, timeout_s: float | None = None) -> frozenset[AccessRule] | None:
        """All rules for topics; None: the cluster has no authoriser, and everybody may do everything."""
        asking = self.asking(timeout_s)
        message = {
            "resource_type_filter": _TOPIC_RESOURCE,
            "resource_name_filter": None,
            "pattern_type_filter": _ANY,
            "principal_filter": None,
            "host_filter": None,
            "operation": _ANY,
            "permission_type": _ANY,
        }
        answer = asking.call(None, ApiKey.DESCRIBE_ACLS, message)
        if answer["error_code"] == ErrorCode.SECURITY_DISABLED:
            return None
        if code := answer["error_code"]:
            raise refusal(asking.cluster, "read the access rules of topics", code, answer["error_message"])
        return frozenset(
            AccessRule(
                _PATTERNS[resource["pattern_type"]],
                resource["resource_name"],
                rule["principal"],
                rule["host"],
                rule["operation"],
                rule["permission_type"] == _ALLOW,
            )
            for resource in answer["resources"]
            if resource["pattern_type"] in _PATTERNS
            for rule in resource["acls"]
        )

    def add_access_rules(
        self, rules: Collection[AccessRule], still_ours: Callable[[], None], timeout_s: float | None = None
    ) -> None:
        """Adds rules; one that is there already stays as it is.

        :param still_ours: raises if they must not be added any more; asked next to each request.
        """
        asking = self.asking(timeout_s)

        def message(some: Sequence[AccessRule]) -> dict[str, Any]:
            still_ours()
            return {"creations": [_as_asked(rule) for rule in some]}

        for _, answer in asking.calls(None, ApiKey.CREATE_ACLS, sorted(rules), _MAX_PER_REQUEST, message):
            for told in answer["results"]:
                if code := told["error_code"]:
                    raise refusal(asking.cluster, "add access rules of topics", code, told["error_message"])


def _as_asked(rule: AccessRule) -> dict[str, Any]:
    return {
        "resource_type": _TOPIC_RESOURCE,
        "resource_name": rule.name,
        "resource_pattern_type": _NUMBERS[rule.pattern],
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission_type": _ALLOW if rule.allows else _DENY,
    }
