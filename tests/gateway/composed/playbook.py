"""Plays a composed handler: expects its questions, feeds it the clusters' answers, shows its result.

play = Playbook(metadata(context(), 9, request))
play.asked(Ask(...)).answers(reply)
play.wants(("east", 1))
assert play.result == {...}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.composed.ask import Ask, ClusterUnavailableError, Reply, Target
from gateway.composed.handlers import BrokerKey, Context, Handler, NeedNodes, NodeAddress, Step
from gateway.model.copies import Copies
from gateway.model.topology import ClusterTopology, Topology
from ha_core.model import Cluster, Extent, Fence, Group, Identity, Mask, Mirror, Topic, UserBindings, View
from ha_core.wire import codec, encoding
from ha_core.wire.apis import flexible
from ha_core.wire.schemas import SCHEMAS

GATEWAY = NodeAddress(1, "gw", 19_092)
OTHER_GATEWAY = NodeAddress(2, "gw", 19_093)
NODES: dict[BrokerKey, int] = {("east", 1): 11, ("east", 2): 12, ("west", 1): 21, ("west", 2): 22}
FIRST_PORT = 20_000
CLUSTER_ID = "bXktc3dpdGNoeWFyZC1pZA"


class Playbook:
    """One run of a handler. Every mismatch is an assertion that shows both sides."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._step: Step | None = None
        self._result: dict[str, Any] | None = None
        self._go(None)

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The handler's present questions."""
        assert isinstance(self._step, tuple), f"the handler asks nothing: {self._step or self._result}"
        return self._step

    @property
    def step(self) -> Step | None:
        """The step that the handler waits for; None: it is done."""
        return self._step

    @property
    def waits(self) -> bool:
        return self._step is not None

    def asked(self, *expected: tuple[str, Target, int]) -> Playbook:
        """Expects asks to these (cluster, target, API key), in any order."""
        assert sorted(map(str, expected)) == sorted(str((a.cluster, a.target, a.api_key)) for a in self.asks)
        return self

    def message(self, cluster: str, **expected: Any) -> Playbook:
        """Expects these fields in the only ask to a cluster."""
        (ask,) = (a for a in self.asks if a.cluster == cluster)
        assert {key: ask.message[key] for key in expected} == expected
        return self

    def answers(self, replies: Mapping[str, Any], version: int | None = None) -> Playbook:
        """Feeds a reply per cluster: the fields of a response, an exception, or a function of the `Ask`.

        :param version: common version of gateway and broker; default: the newest that the gateway knows.
        """
        sent: list[Reply] = []
        for ask in self.asks:
            reply = replies[ask.cluster]
            reply = reply(ask) if callable(reply) else reply
            sent.append(reply if isinstance(reply, ClusterUnavailableError) else decoded(ask.api_key, reply, version))
        self._go(sent)
        return self

    def wants(self, *expected: BrokerKey) -> Playbook:
        """Expects a request for exactly these virtual nodes and grants it."""
        assert isinstance(self._step, NeedNodes), f"the handler wants no nodes: {self._step or self._result}"
        assert sorted(self._step.brokers) == sorted(expected)
        self._go({broker: address(broker) for broker in self._step.brokers})
        return self

    def gives(self, sent: Any) -> Playbook:
        """Feeds the answer to a step of another kind."""
        self._go(sent)
        return self

    def answers_all(self, replies: Mapping[str, Any]) -> Playbook:
        """Feeds the same replies to every question, until the handler is done."""
        while isinstance(self._step, tuple):
            self.answers(replies)
        return self

    @property
    def result(self) -> dict[str, Any]:
        assert self._result is not None, f"the handler is not done: {self._step}"
        return self._result

    def encodes(self, api_key: int, version: int) -> dict[str, Any]:
        """The result as a client of this version decodes it."""
        _writable(api_key, version, "response", self.result)
        return codec.decode(api_key, version, "response", codec.encode(api_key, version, "response", self.result))

    def _go(self, sent: Any) -> None:
        try:
            self._step = self._handler.send(sent)
        except StopIteration as stop:
            self._step, self._result = None, stop.value
        else:
            for ask in self._step if isinstance(self._step, tuple) else ():
                versions = codec.supported(ask.api_key)
                assert versions is not None
                # The oldest supported broker offers version 1 of each API that has one.
                for version in range(max(versions[0], min(1, versions[1])), versions[1] + 1):
                    _writable(ask.api_key, version, "request", ask.message)


class NodesGranted(Playbook):
    """Grants the nodes that every answer lists."""

    @property
    def result(self) -> dict[str, Any]:
        if isinstance(self._step, NeedNodes):
            self._go({broker: address(broker) for broker in self._step.brokers})
        return super().result


def only_topic(message: Mapping[str, Any]) -> dict[str, Any]:
    """The one topic of a request or an answer."""
    (topic,) = message["topics"]
    return dict(topic)


def only_partition(message: Mapping[str, Any]) -> dict[str, Any]:
    """The one partition of the one topic of a request or an answer."""
    (partition,) = only_topic(message)["partitions"]
    return dict(partition)


def _writable(api_key: int, version: int, kind: codec.Kind, message: dict[str, Any]) -> None:
    schema = SCHEMAS[api_key]
    fields, tagged = schema.fields(kind), flexible(api_key, version)
    fault = encoding.explain(fields, version, tagged, message, f"{schema.key.name} v{version} {kind}")
    assert fault is None, fault


def decoded(api_key: int, fields: Mapping[str, Any], version: int | None = None) -> dict[str, Any]:
    """A response with all of its fields, as decoded by the codec."""
    versions = codec.supported(api_key)
    assert versions is not None
    spoken = versions[1] if version is None else version
    return codec.decode(api_key, spoken, "response", codec.encode(api_key, spoken, "response", fields))


def requested(api_key: int, version: int, **fields: Any) -> dict[str, Any]:
    """A request as decoded by the session."""
    return codec.decode(api_key, version, "request", codec.encode(api_key, version, "request", fields))


def address(broker: BrokerKey) -> NodeAddress:
    return NodeAddress(NODES[broker], "gw", FIRST_PORT + NODES[broker])


def away(cluster: str) -> ClusterUnavailableError:
    return ClusterUnavailableError(cluster, "connection refused")


def world(
    east: Mapping[str, Mapping[int, int]] | None = None,
    west: Mapping[str, Mapping[int, int]] | None = None,
    *,
    topics: tuple[Topic, ...] = (),
    groups: tuple[Group, ...] = (),
    bindings: tuple[UserBindings, ...] = (),
    masked: str = "",
    down: str = "",
    port: BrokerKey | None = None,
    user: str = "alice",
    offered: Mapping[int, tuple[int, int]] | None = None,
    mirrors: tuple[Mirror, ...] = (),
    copies: Copies | None = None,
) -> Context:
    """Clusters east (the default) and west with brokers 1 and 2 each; `east`, `west`: topic → partition → leader."""
    held = {"east": east or {}, "west": west or {}}
    mask = Mask(since="2026-01-01T00:00:00Z", reason="fire", by="ops")
    clusters = {
        name: Cluster(
            name=name, bootstrap=f"{name}:9092", default=name == "east", masked=mask if name == masked else None
        )
        for name in held
    }
    seen = {
        name: ClusterTopology(
            name,
            reachable=name not in (masked, down),
            brokers={n: (name, 9092 + n) for n in (1, 2)},
            topics=held[name],
            api_versions=offered or {},
        )
        for name in held
    }
    view = View(
        revision=1,
        clusters=clusters,
        bindings={b.user: b for b in bindings},
        topics={t.name: t for t in topics},
        mirrors={mirror.key: mirror for mirror in mirrors},
        groups={g.name: g for g in groups},
    )
    return Context(
        view=view,
        topology=Topology(seen),
        identity=Identity(user, "app-1"),
        port_cluster=port[0] if port else None,
        port_broker=port[1] if port else None,
        gateways=(GATEWAY, OTHER_GATEWAY),
        self_node=GATEWAY,
        cluster_id=CLUSTER_ID,
        copies=copies or Copies(),
        nodes=NODES,
    )


def moved(name: str = "orders", fence: bool = False) -> Topic:
    """A topic with client offsets 0 to 99 in east, and from 100 on in west, from west's own offset 40."""
    extents = (
        Extent(cluster="east", start=0, end=100, base=0, writer_epoch=0),
        Extent(cluster="west", start=100, end=None, base=40, writer_epoch=1),
    )
    return Topic(
        name=name, writer="west", partitions={0: extents, 1: extents}, fence=Fence(operation="op-1") if fence else None
    )
