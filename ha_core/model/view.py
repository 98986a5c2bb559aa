"""One immutable view of the whole state. Every decision is based on one view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, get_args, get_type_hints

from ha_core.model.cluster import Cluster
from ha_core.model.direct_groups import DirectGroups
from ha_core.model.document import Document
from ha_core.model.extent import client_place
from ha_core.model.group import Group
from ha_core.model.identity import Identity, UserBindings, identify
from ha_core.model.mirror import COPY_LOG, Mirror
from ha_core.model.remote_topics import RemoteTopicPortion
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
    remote_topics: Mapping[str, RemoteTopicPortion] = field(default_factory=dict)
    """By `{flow}@{source id}>{target id}:{portion}`."""
    direct_groups: Mapping[str, DirectGroups] = field(default_factory=dict)
    """By pattern."""
    copy_logs: frozenset[str] = field(init=False, compare=False, repr=False)
    """Copy logs, in which copiers keep their notes. They stay in their cluster, and are not topics of users."""

    def __post_init__(self) -> None:
        logs = {mirror.log for mirror in self.mirrors.values()}
        object.__setattr__(self, "copy_logs", frozenset({COPY_LOG, *logs}))

    @classmethod
    def of(cls, revision: int, tables: Mapping[type[Document], Mapping[str, Any]]) -> View:
        """:param tables: kind → name → document; kinds without a field here are left out."""
        return cls(revision, **{_FIELDS[kind]: table for kind, table in tables.items() if kind in _FIELDS})

    def identify(self, authenticated_user: str | None, client_id: str | None) -> Identity:
        """The identity of a connection's request: the client-id forms of its user give the instance."""
        identity = identify(authenticated_user, client_id)
        bindings = self.bindings.get(identity.user)
        if bindings is None or not bindings.client_ids:
            return identity
        return identify(authenticated_user, bindings.instance(identity.instance))

    def mapped(self, topic: str) -> Topic | None:
        """The topic's document, if it has a map."""
        document = self.topics.get(topic)
        return document if document is not None and document.mapped else None

    def deleted(self, topic: str) -> bool:
        """Whether the topic is being deleted: to clients it is gone."""
        document = self.topics.get(topic)
        return document is not None and document.deletion is not None

    def concealed(self, topic: str) -> bool:
        """Whether gateways hide the topic from clients, even if clusters have it."""
        return topic in self.copy_logs or self.deleted(topic)

    def direct(self, group: str) -> str | None:
        """The pattern that names the group as a direct one; None: it commits client offsets."""
        return next((pattern for pattern in self.direct_groups if fnmatchcase(group, pattern)), None)

    def client_place(self, cluster: str, key: tuple[str, int], physical: int) -> int | None:
        """The client offset of a direct group's commit of a partition in a cluster. None: no record that it would read
        next is in the topic's map: the cluster has a copy, or has served its part."""
        topic, partition = key
        document = self.mapped(topic)
        if document is None:
            return None if f"{topic}@{cluster}" in self.mirrors else physical
        return client_place(document.extents(partition), cluster, physical)

    @property
    def masked(self) -> dict[str, str]:
        """Cluster → reason why it is masked."""
        return {name: cluster.masked.reason for name, cluster in self.clusters.items() if cluster.masked is not None}

    @property
    def super_users(self) -> dict[str, str]:
        """User → the cluster whose super user it is."""
        return {user: cluster.name for cluster in self.clusters.values() for user in cluster.super_users}

    def super_user_of(self, user: str) -> frozenset[str]:
        """Clusters whose super user it is."""
        return frozenset(cluster.name for cluster in self.clusters.values() if user in cluster.super_users)

    @property
    def default_cluster(self) -> str | None:
        """The cluster if nothing else decides: the one marked default, else the only one."""
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
