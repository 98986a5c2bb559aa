"""Access rules for topics (ACLs), where a cluster has an authoriser."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from ha_core.kafka.brokers import RIGHTS_NOT_TOLD, Asking, Brokers, StillOurs
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import ClusterUnreachableError, NotReadyError, refusal
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.wire.codes import ApiKey, ErrorCode

ANY = 1
_TOPIC_RESOURCE = 2
_DENY, _ALLOW = 2, 3
_WRITE = 4
_PATTERNS: dict[int, Literal["literal", "prefixed"]] = {3: "literal", 4: "prefixed"}
_NUMBERS = {pattern: number for number, pattern in _PATTERNS.items()}
_MAX_PER_REQUEST = 500
_METADATA_VERSION = 12
_LOOK_PAUSE_S = 0.05
_PROBE = TopicAcl("literal", "switchyard-probe", "User:*", "*", 8, False)
"""The one rule that is written in order to ask: no request lists super users. It stays, since it concerns no topic."""
ALL_TOPIC_RULES: Mapping[str, Any] = {
    "resource_type_filter": _TOPIC_RESOURCE,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


class Access(Brokers):
    def access_rules(self, timeout_s: float | None = None) -> frozenset[TopicAcl] | None:
        """All ACLs for topics; None: the cluster has no authorizer, so every account may do everything."""
        return _rules(self.asking(timeout_s), None)

    def add_access_rules(
        self, rules: Collection[TopicAcl], still_ours: StillOurs, timeout_s: float | None = None
    ) -> None:
        """Adds ACLs; those that exist stay as they are."""
        asking = self.asking(timeout_s)
        for _, answer in _changed(asking, ApiKey.CREATE_ACLS, "creations", map(_as_asked, sorted(rules)), still_ours):
            _require_added(asking, answer)

    def remove_access_rules(
        self, rules: Collection[TopicAcl], still_ours: StillOurs, timeout_s: float | None = None
    ) -> None:
        """Removes exactly these ACLs; missing ones are skipped."""
        asking = self.asking(timeout_s)
        for _, answer in _changed(asking, ApiKey.DELETE_ACLS, "filters", map(_as_filter, sorted(rules)), still_ours):
            for result in answer["filter_results"]:
                for entry in (result, *result["matching_acls"]):
                    if code := entry["error_code"]:
                        raise refusal(asking.cluster, "remove ACLs of topics", code, entry["error_message"])

    def await_access_rules(
        self, there: Collection[TopicAcl] = (), gone: Collection[TopicAcl] = (), timeout_s: float | None = None
    ) -> None:
        """Waits until every reachable broker applies the ACLs: each has its own copy of them.

        :raises NotReadyError: the timeout passed.
        """
        asking = self.asking(timeout_s)
        asking.metadata()
        for node in [*asking.nodes]:
            with suppress(ClusterUnreachableError):  # it reads them before it serves again
                while (rules := _rules(asking, node)) is not None and (
                    not rules.issuperset(there) or not rules.isdisjoint(gone)
                ):
                    _pause(asking)

    def bypasses_rules(self, timeout_s: float | None = None) -> bool:
        """True if our account is a super user: `_PROBE` denies a topic that does not exist to all others."""
        asking = self.asking(timeout_s)

        def hidden(connection: BlockingConnection) -> bool:
            _require_added(asking, connection.call(ApiKey.CREATE_ACLS, {"creations": [_as_asked(_PROBE)]}))
            while _PROBE not in (_parsed(asking, connection.call(ApiKey.DESCRIBE_ACLS, ALL_TOPIC_RULES)) or ()):
                _pause(asking)
            wanted = {"topics": [{"name": _PROBE.name}], "allow_auto_topic_creation": False}
            (found,) = connection.call(ApiKey.METADATA, wanted, _METADATA_VERSION)["topics"]
            return bool(found["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED)

        return not asking.converse(None, hidden)

    def writable(self, topics: Collection[str], timeout_s: float | None = None) -> frozenset[str]:
        """Topics of these that our account may write to, as far as brokers report rights."""
        if not topics:
            return frozenset()
        described = self.asking(timeout_s).metadata(topics, rights=True)["topics"]
        return frozenset(topic["name"] for topic in described if _may_write(topic))


def _changed(
    asking: Asking, api: ApiKey, field: str, rules: Iterable[dict[str, Any]], still_ours: StillOurs
) -> list[tuple[Sequence[dict[str, Any]], dict[str, Any]]]:
    def message(some: Sequence[dict[str, Any]]) -> dict[str, Any]:
        still_ours()
        return {field: some}

    return asking.calls(None, api, list(rules), _MAX_PER_REQUEST, message)


def _require_added(asking: Asking, answer: Mapping[str, Any]) -> None:
    for result in answer["results"]:
        if code := result["error_code"]:
            raise refusal(asking.cluster, "add ACLs of topics", code, result["error_message"])


def _may_write(topic: Mapping[str, Any]) -> bool:
    if topic["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return False
    operations: int = topic["topic_authorized_operations"]
    return operations == RIGHTS_NOT_TOLD or bool(operations >> _WRITE & 1)


def _rules(asking: Asking, node: int | None) -> frozenset[TopicAcl] | None:
    """ACLs as this broker has them; None: any broker."""
    return _parsed(asking, asking.call(node, ApiKey.DESCRIBE_ACLS, ALL_TOPIC_RULES))


def _parsed(asking: Asking, answer: Mapping[str, Any]) -> frozenset[TopicAcl] | None:
    if answer["error_code"] == ErrorCode.SECURITY_DISABLED:
        return None
    if code := answer["error_code"]:
        raise refusal(asking.cluster, "read the ACLs of topics", code, answer["error_message"])
    return frozenset(
        TopicAcl(
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


def _pause(asking: Asking) -> None:
    """:raises NotReadyError: the timeout has passed."""
    if asking.deadline.left_s <= _LOOK_PAUSE_S:
        raise NotReadyError(
            asking.cluster,
            f"has not applied its ACLs on all brokers within {asking.deadline.seconds:g} s. Check that its brokers are "
            "healthy, then try again.",
        )
    time.sleep(_LOOK_PAUSE_S)


def _as_asked(rule: TopicAcl) -> dict[str, Any]:
    return {
        "resource_type": _TOPIC_RESOURCE,
        "resource_name": rule.name,
        "resource_pattern_type": _NUMBERS[rule.pattern],
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission_type": _ALLOW if rule.allows else _DENY,
    }


def _as_filter(rule: TopicAcl) -> dict[str, Any]:
    return {
        "resource_type_filter": _TOPIC_RESOURCE,
        "resource_name_filter": rule.name,
        "pattern_type_filter": _NUMBERS[rule.pattern],
        "principal_filter": rule.principal,
        "host_filter": rule.host,
        "operation": rule.operation,
        "permission_type": _ALLOW if rule.allows else _DENY,
    }
