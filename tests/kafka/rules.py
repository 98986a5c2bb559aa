"""ACLs of real clusters in tests: adding them, and syncing the mirrors of a memory store."""

from collections.abc import Collection
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.model import Document, Mirror
from ha_core.operations.copies.syncing.groups import Memory
from ha_core.operations.copies.syncing.pair import Synced
from ha_core.operations.copies.syncing.passes import sync
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore


def rule(name: str, operation: int, principal: str = "User:ann") -> TopicAcl:
    return TopicAcl("literal", name, principal, "*", operation, True)


def add(admin: Admin, rules: Collection[TopicAcl]) -> None:
    """Adds ACLs and waits until all brokers apply them."""
    admin.add_access_rules(rules, lambda: None)
    admin.await_access_rules(there=rules)


def mirrored(store: MemoryStore, topic: str, **policy: Any) -> Mirror:
    mirror = Mirror.of(topic, "east", "west", "link", "2026-01-01T00:00:00Z", "test", **policy)
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None}
    store.commit(StateChange(change_id=f"link {topic}", puts=(mirror,), expected=expected))
    return mirror


def synced(store: MemoryStore, east: Admin, west: Admin, copies: bool = True) -> Synced:
    """:param copies: sync with the accounts that copy."""
    return sync(store.client(), (east, west), "topics", "2026-01-01T00:00:00Z", Memory(), copies=copies)


def of(admin: Admin, prefix: str) -> set[TopicAcl]:
    return {topic_acl for topic_acl in admin.access_rules() or () if topic_acl.name.startswith(prefix)}
