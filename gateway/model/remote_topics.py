"""Rights on remote topics: only the flow writes them, and users that may read a source may read its copies (KIP-382).

The name alone does not decide: `A.orders` may be an ordinary topic in one cluster and a remote topic in another, and a
flow that keeps names writes `orders` only in its target. So the cluster to which a request leads decides.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ha_core.model import RemoteTopicPortion, View
from ha_core.model.access import CLUSTER_NAME, AclOperation, ResourceType
from ha_core.plan.access.rights import EVERYTHING, Verdicts, bit_of, granted
from ha_core.plan.routing.bounded_cache import CacheBudget

READING = bit_of(AclOperation.READ) | bit_of(AclOperation.DESCRIBE) | bit_of(AclOperation.DESCRIBE_CONFIGS)
"""The only operations on a remote topic that gateways allow clients."""
MAX_HOPS = 16
"""Maximum number of flows on a topic's path. The topic's name, of at most 249 characters, has an alias for each."""


class KnownRemoteTopic(NamedTuple):
    """:ivar document: facts about the topic's flow."""

    document: RemoteTopicPortion
    source: str
    """The topic's name one hop upstream; "": it has no source."""


class RemoteTopicIndex:
    """The remote topics of all clusters; immutable."""

    __slots__ = ("_by_cluster", "_by_name", "_by_source")

    def __init__(self, documents: Iterable[RemoteTopicPortion] = ()) -> None:
        self._by_cluster: dict[str, dict[str, KnownRemoteTopic]] = {}
        self._by_name: dict[str, KnownRemoteTopic] = {}
        self._by_source: dict[str, dict[str, dict[str, str]]] = {}
        """Alias of the source → id of the target → topic of the source → remote topic."""
        for document in sorted(documents, key=lambda document: document.key):
            its = self._by_cluster.setdefault(document.target_id, {})
            remote = self._by_source.setdefault(document.source, {}).setdefault(document.target_id, {})
            for name, source in document.topics.items():
                found = its.setdefault(name, KnownRemoteTopic(document, source))
                self._by_name.setdefault(name, found)
                if source not in ("", name) and found.document is document:
                    remote.setdefault(source, name)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def find(self, cluster_id: str | None, name: str) -> KnownRemoteTopic | None:
        """The remote topic of this name in a cluster.

        :param cluster_id: "": the id is not known yet, so a remote topic of any cluster counts. None: no cluster.
        """
        if cluster_id is None:
            return None
        return (self._by_cluster.get(cluster_id, _NONE) if cluster_id else self._by_name).get(name)

    def sources(self, cluster_id: str, alias: str) -> Mapping[str, str]:
        """Topic of the source with this alias → its remote topic in a cluster.

        :param cluster_id: "": not known yet; all clusters count then.
        """
        its = self._by_source.get(alias, {})
        return its.get(cluster_id, {}) if cluster_id else ChainMap(*(its[target] for target in sorted(its)))

    def concerns(self, cluster_id: str) -> bool:
        """Whether a flow may write in this cluster; a cluster whose id is not known yet counts."""
        return bool(self) and (not cluster_id or cluster_id in self._by_cluster)


_NONE: dict[str, KnownRemoteTopic] = {}
NO_REMOTE_TOPICS = RemoteTopicIndex()
Places = Callable[[str], Iterable[str]]
"""Topic → the ids of the clusters to which a client's requests for it lead."""


def led_to(view: View, name: str, otherwise: str | None) -> Iterable[str]:
    """The clusters that write a topic by its map; a topic without a map is in the cluster `otherwise`."""
    document = view.mapped(name)
    if document is not None:
        return document.writers
    return () if otherwise is None else (otherwise,)


class RemoteVerdicts(Verdicts):
    """Rights of one client, with the limits for remote topics."""

    __slots__ = ("_base", "_index", "_places")

    def __init__(self, base: Verdicts | None, index: RemoteTopicIndex, places: Places) -> None:
        """:param base: rights by the rules; None: everything is allowed."""
        super().__init__((), CacheBudget())
        self._base = base if base is None or not base.everything else None
        self._index, self._places = index, places

    def remote(self, name: str) -> KnownRemoteTopic | None:
        """The remote topic to which requests for this name lead."""
        if self._index.find("", name) is None:
            return None  # No flow writes a topic of this name anywhere, so its place need not be looked up.
        return next((it for place in self._places(name) if (it := self._index.find(place, name)) is not None), None)

    def operations(self, resource: int, name: str = CLUSTER_NAME) -> int:
        if resource != ResourceType.TOPIC or (remote := self.remote(name)) is None:
            return EVERYTHING if self._base is None else self._base.operations(resource, name)
        if self._base is None:
            return READING
        return granted(*self._masks(self._base, name, remote, MAX_HOPS)) & READING

    def allows_any(self, operation: int, resource: int) -> bool:
        return self._base is None or self._base.allows_any(operation, resource)

    def may_object(self, operation: int, resource: int) -> bool:
        return resource == ResourceType.TOPIC and not READING >> operation & 1

    def objection(self, operation: int, resource: int, name: str, anyway: bool = False) -> str:
        if not self.may_object(operation, resource) or (remote := self.remote(name)) is None:
            return ""
        if not (anyway or self._base is None or self._base.allows(operation, resource, name)):
            return ""  # The answer about a denied topic must not reveal that it is a remote topic.
        return f"{name} is a remote topic: only flow {remote.document.flow} writes it" + (
            f", and its source is {remote.source}." if remote.source else "."
        )

    def _masks(self, base: Verdicts, name: str, remote: KnownRemoteTopic | None, hops: int) -> tuple[int, int]:
        """Operations that rules allow and deny for a remote topic. At each hop, rules for its source count as well: the
        right to read, and every denial."""
        allowed, denied = base.masks(ResourceType.TOPIC, name)
        if remote is None or not remote.source or not remote.document.readers_of_source or not hops:
            return allowed, denied
        source, source_id = remote.source, remote.document.source_id
        upstream = self._index.find(source_id, source) if source_id else None
        more, less = self._masks(base, source, upstream, hops - 1)
        reading = granted(more, less)
        if reading & bit_of(AclOperation.READ):
            allowed |= reading & READING
        return allowed, denied | less
