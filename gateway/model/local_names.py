"""Local names of remote topics: a client that is bound to a flow's target sees `A.orders` as `orders`.

One topic has one name for a client: the remote topic has no other one, and a topic of the target's own that is called
`orders`, too, is not shown. So no request and no answer is ambiguous. A topic with a map keeps its name, and so does
one that has a binding of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gateway.model.remote_topics import READING, RemoteTopicIndex, RemoteVerdicts
from gateway.model.topology import Topology
from ha_core.model import Identity, View
from ha_core.model.access import CLUSTER_NAME, ResourceType
from ha_core.plan.access.rights import EVERYTHING, Verdicts
from ha_core.plan.routing.bounded_cache import CacheBudget
from ha_core.plan.routing.resolve import lead_group
from ha_core.wire.codes import ApiKey

Message = dict[str, Any]


class LocalNames:
    """Names of remote topics for one identity, in the cluster that serves it.

    :ivar cluster: that cluster. Topics that only other clusters have are not served from there: a copy that begins
        later would take the place of its source, at other offsets.
    """

    __slots__ = ("_alias", "_apart", "_cluster_id", "_index", "_sources", "_view", "cluster")

    def __init__(
        self, view: View, index: RemoteTopicIndex, alias: str, cluster: str, cluster_id: str, apart: Mapping[str, str]
    ) -> None:
        """:param alias: the source's alias in the flows' configuration.
        :param apart: topics with a binding of their own.
        """
        self.cluster = cluster
        self._view, self._index, self._alias, self._cluster_id = view, index, alias, cluster_id
        self._sources, self._apart = index.sources(cluster_id, alias), apart

    def real(self, name: str) -> str | None:
        """The remote topic that the client sees under this name; None: it sees the topic of this name, if any."""
        found = self._sources.get(name)
        if found is None or name in self._apart or self._view.mapped(name) is not None:
            return None
        return found

    def local(self, name: str) -> str | None:
        """The local name of a remote topic; None: the topic has none."""
        known = self._index.find(self._cluster_id, name)
        return known.source if known is not None and self.real(known.source) == name else None

    def flow(self, name: str) -> str:
        """The flow that writes a remote topic which has a local name."""
        known = self._index.find(self._cluster_id, name)
        return "" if known is None else known.document.flow

    # -- requests and answers -------------------------------------------------------------------------------------

    def requested(self, api_key: int, message: Message) -> Message:
        """The request, with the topics' names in their cluster; this one itself if it names no remote topic."""
        place = NAMED.get(api_key)
        elements = message.get(place.asked) if place is not None else None
        if place is None or not elements:
            return message
        found = [self._renamed(element, place.field) for element in elements]
        changed = any(one is not other for one, other in zip(found, elements, strict=True))
        return {**message, place.asked: found} if changed else message

    def answered(self, api_key: int, answer: Message) -> Message:
        """The answer to such a request, with the names that the client knows, and without topics that it does not see.
        Answers may be shared, so it is not modified."""
        place = NAMED.get(api_key)
        elements = answer.get(place.told) if place is not None else None
        if place is None or not elements:
            return answer
        found = []
        for element in elements:
            name = element[place.told_field]
            if _names_no_topic(element):
                found.append(element)
            elif (local := self.local(name)) is not None:
                found.append({**element, place.told_field: local})
            elif self.real(name) is None:
                found.append(element)
        return {**answer, place.told: found}

    def _renamed(self, element: Any, field: str) -> Any:
        if not field:
            return self.real(element) or element
        real = None if _names_no_topic(element) else self.real(element[field] or "")
        return element if real is None else {**element, field: real}


def _names_no_topic(element: Message) -> bool:
    """A resource of another kind, which may have a topic's name."""
    return bool(element.get("resource_type", ResourceType.TOPIC) != ResourceType.TOPIC)


class _Place(NamedTuple):
    """Names of topics in an API's messages.

    :ivar asked: list of the request. :ivar field: in each of its elements; "": the element is the name.
    :ivar told: list of the answer. :ivar told_field: in each of its elements.
    """

    asked: str = "topics"
    field: str = "name"
    told: str = "topics"
    told_field: str = "name"


NAMED: Mapping[int, _Place] = {
    ApiKey.METADATA: _Place(),
    ApiKey.LIST_OFFSETS: _Place(),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _Place(field="topic", told_field="topic"),
    ApiKey.OFFSET_COMMIT: _Place(),
    ApiKey.OFFSET_FETCH: _Place(),
    ApiKey.OFFSET_DELETE: _Place(),
    ApiKey.TXN_OFFSET_COMMIT: _Place(),
    ApiKey.DESCRIBE_PRODUCERS: _Place(),
    ApiKey.DESCRIBE_CONFIGS: _Place("resources", "resource_name", "results", "resource_name"),
    # Its handler judges the right to delete, after the right to see the topic.
    ApiKey.DELETE_TOPICS: _Place("topic_names", "", "responses"),
}
"""APIs by which a client reads remote topics under their local names. FETCH is planned by its routes; the others change
topics, and are refused for each remote topic before they name one to a cluster."""


def local_names(view: View, identity: Identity, index: RemoteTopicIndex, topology: Topology) -> LocalNames | None:
    """The local names of remote topics for an identity; None: it sees each topic under its own name."""
    bindings = view.bindings.get(identity.user)
    if bindings is None or bindings.local_names is None or identity.topic_hint in bindings.topics:
        return None
    cluster, _ = lead_group(view, identity, "")
    if cluster is None:
        return None
    cluster_id = topology.cluster_id(cluster)
    return LocalNames(view, index, bindings.local_names, cluster, cluster_id, bindings.topics)


class LocalVerdicts(Verdicts):
    """Rights of one client by the names that it knows: those to a remote topic under its local name, none under its
    own."""

    __slots__ = ("_base", "_remote", "names")

    def __init__(
        self, base: Verdicts | None, rules: Verdicts | None, names: LocalNames, index: RemoteTopicIndex, cluster_id: str
    ) -> None:
        """:param base: rights to all else; None: everything is allowed.
        :param rules: rights by the rules.
        """
        super().__init__((), CacheBudget())
        self.names = names
        self._base = base if base is None or not base.everything else None
        self._remote = RemoteVerdicts(rules, index, lambda _: (cluster_id,))

    def operations(self, resource: int, name: str = CLUSTER_NAME) -> int:
        if resource == ResourceType.TOPIC:
            if (real := self.names.real(name)) is not None:
                return self._remote.operations(resource, real)
            if self.names.local(name) is not None:
                return 0
        return EVERYTHING if self._base is None else self._base.operations(resource, name)

    def allows_any(self, operation: int, resource: int) -> bool:
        return self._base is None or self._base.allows_any(operation, resource)

    def may_object(self, operation: int, resource: int) -> bool:
        return resource == ResourceType.TOPIC or (self._base is not None and self._base.may_object(operation, resource))

    def objection(self, operation: int, resource: int, name: str, anyway: bool = False) -> str:
        if resource == ResourceType.TOPIC:
            if (real := self.names.real(name)) is not None:
                return self._not_written(operation, resource, name, real, anyway)
            if (local := self.names.local(name)) is not None:
                # A client that may not read the topic must not learn of it.
                reads = self._remote.operations(resource, name)
                return f"{name} is shown to this client as {local}: use that name." if reads else ""
        return "" if self._base is None else self._base.objection(operation, resource, name, anyway)

    def _not_written(self, operation: int, resource: int, name: str, real: str, anyway: bool) -> str:
        if READING >> operation & 1 or not self._remote.objection(operation, resource, real, anyway):
            return ""
        return (
            f"{name} is {real} to this client, and only flow {self.names.flow(real)} writes it. Write a topic of "
            f"{self.names.cluster}'s own as a user without local names."
        )
