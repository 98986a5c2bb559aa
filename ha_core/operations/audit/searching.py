"""Operations by user, topic, cluster and author, newest first. The search is bounded and says how far it looked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ha_core.model import MoveOperation, Operation
from ha_core.operations.audit.answers import provenance
from ha_core.operations.audit.exporting import within
from ha_core.store.store import Store

PAGE = 200
LOOKED_AT = 10_000
"""Operations that one search reads at most."""


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """Empty: any."""

    user: str = ""
    topic: str = ""
    cluster: str = ""
    by: str = ""
    """A part of the user who asked or approved, or of the executor; in any case."""
    since: datetime | None = None
    until: datetime | None = None
    """Operations that began from `since` on, and before `until`."""

    def matches(self, operation: Operation) -> bool:
        move = operation if isinstance(operation, MoveOperation) else None
        about = {*operation.about}
        users = {*move.request.scope.named_users} if move else {_user(entry) for entry in about}
        topics = {*(move.moves.topics if move else ()), *(_topic(entry) for entry in about)}
        clusters = {*(operation.route or ()), *(entry.removeprefix("cluster:") for entry in about)}
        people = provenance(operation)
        authors = " ".join(filter(None, (operation.by, people.asked_by, people.approved_by))).lower()
        return (
            (not self.user or self.user in users)
            and (not self.topic or self.topic in topics)
            and (not self.cluster or self.cluster in clusters)
            and self.by.lower() in authors
            and within(operation.started, self.since, self.until)
        )

    def matches_change(self, change: Mapping[str, Any]) -> bool:
        """Whether a change of the platform matches: its value names the user or topic. It has no cluster."""
        value = json.dumps(change.get("value"), ensure_ascii=False) + str(change.get("key", ""))
        named = all(name in value for name in (self.user, self.topic) if name)
        by = self.by.lower() in str(change.get("by", "")).lower()
        return named and by and not self.cluster and within(str(change.get("changed", "")), self.since, self.until)


def _user(entry: str) -> str:
    """The user in `user:NAME`, with any part of it behind."""
    name = entry.removeprefix("user:")
    return name if name != entry else ""


def _topic(entry: str) -> str:
    """The topic in `topic:NAME`, with any partitions behind; topics have no colon."""
    name = entry.removeprefix("topic:")
    return name.partition(":")[0] if name != entry else ""


@dataclass(frozen=True, slots=True)
class FoundOperations:
    operations: tuple[Operation, ...]
    older: str
    """Continue before this operation; empty: there are no older ones."""


def search(store: Store, wanted: OperationFilter, limit: int, before: str | None = None) -> FoundOperations:
    """The newest operations that match, at most `limit` of the newest `LOOKED_AT`."""
    found: list[Operation] = []
    looked, at_once = 0, PAGE if wanted != OperationFilter() else min(limit, LOOKED_AT)
    while looked < LOOKED_AT:
        page = store.operations(at_once, before)
        for operation in page:
            before = operation.id
            looked += 1
            if wanted.since is not None and not within(operation.started, wanted.since, None):
                return FoundOperations(tuple(found), "")  # all others are older
            if wanted.matches(operation):
                found.append(operation)
                if len(found) == limit:
                    return FoundOperations(tuple(found), before)
        if len(page) < at_once:
            return FoundOperations(tuple(found), "")
    return FoundOperations(tuple(found), before or "")
