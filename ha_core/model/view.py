"""One immutable view of the whole state: every decision is taken on one of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

from ha_core.model.binding import UserBindings
from ha_core.model.cluster import Cluster
from ha_core.model.document import Document
from ha_core.model.group import Group
from ha_core.model.identity import Identity, identify
from ha_core.model.mirror import COPY_LOG, Mirror
from ha_core.model.topic import LastSequences, Topic


@dataclass(frozen=True, slots=True)
class View:
    """The state at `revision`. Mappings are by name; they are replaced as a whole, never changed in place."""

    revision: int = 0
    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    bindings: Mapping[str, UserBindings] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    sequences: Mapping[str, LastSequences] = field(default_factory=dict)
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)
    """By `{topic}@{target}`."""
    copy_logs: frozenset[str] = field(init=False, compare=False, repr=False)
    """Topics in which copiers of mirrors keep their notes: they stay in their cluster, and are no topics of users."""

    def __post_init__(self) -> None:
        logs = {mirror.log for mirror in self.mirrors.values()}
        object.__setattr__(self, "copy_logs", frozenset({COPY_LOG, *logs}))

    @classmethod
    def of(cls, revision: int, tables: Mapping[type[Document], Mapping[str, Any]]) -> View:
        """:param tables: kind → name → document; kinds without a field here are left out."""
        return cls(revision, **{_FIELDS[kind]: table for kind, table in tables.items() if kind in _FIELDS})

    def identify(self, authenticated_user: str | None, client_id: str | None) -> Identity:
        """The identity of a connection's request: the client-id forms of its user give the instance."""
        found = identify(authenticated_user, client_id)
        bindings = self.bindings.get(found.user)
        if bindings is None or not bindings.client_ids:
            return found
        return identify(authenticated_user, bindings.instance(found.instance))

    def mapped(self, topic: str) -> Topic | None:
        """The topic's document, where it has a map."""
        found = self.topics.get(topic)
        return found if found is not None and found.mapped else None

    def deleted(self, topic: str) -> bool:
        """Whether the topic is being deleted: to clients it is gone."""
        found = self.topics.get(topic)
        return found is not None and found.deletion is not None

    def concealed(self, topic: str) -> bool:
        """Whether clients see no topic of that name, whatever clusters have."""
        return topic in self.copy_logs or self.deleted(topic)

    @property
    def masked(self) -> dict[str, str]:
        """Cluster → why it was taken out of service."""
        return {name: one.masked.reason for name, one in self.clusters.items() if one.masked is not None}

    @property
    def super_users(self) -> dict[str, str]:
        """User → the cluster whose super user it is."""
        return {user: one.name for one in self.clusters.values() for user in one.super_users}

    def super_user_of(self, user: str) -> frozenset[str]:
        """Clusters whose super user it is; empty: it is none."""
        return frozenset(one.name for one in self.clusters.values() if user in one.super_users)

    @property
    def default_cluster(self) -> str | None:
        """The cluster where nothing else decides: the one marked default, else the only one."""
        marked = [c.name for c in self.clusters.values() if c.default]
        if marked:
            return min(marked)
        return next(iter(self.clusters)) if len(self.clusters) == 1 else None


_FIELDS: Mapping[type[Document], str] = {
    kind: name
    for name, hint in get_type_hints(View).items()
    for kind in get_args(hint)[1:]
    if isinstance(kind, type) and issubclass(kind, Document)
}
