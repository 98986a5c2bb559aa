"""Producer ids that clusters issue: transactional producers.

Invariant: a request that names such an id reaches the cluster that issued it and no other, under the id by which that
cluster knows it. Elsewhere the same number is another producer: the batch would be taken for a duplicate, appended to
a stranger's transaction, or leave one open for ever that nobody ends. Everything that is needed lies in the id
(`ha_core.model.producer`), so this holds with any number of gateways, and through their restarts.

What is refused is answered INVALID_PRODUCER_ID_MAPPING, as by a coordinator that does not know the producer. Java and
librdkafka abort the transaction, ask for a new id and go on (KIP-360); a client without KIP-360 ends its producer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ha_core.model.producer import issued_id, issuer


class VirtualNodes(Protocol):
    """The ids of brokers over all clusters, as far as this gateway knows them now."""

    @property
    def ids(self) -> Mapping[tuple[str, int], int]: ...
    def broker(self, node_id: int) -> tuple[str, int] | None: ...


class Issued(NamedTuple):
    cluster: str | None
    """None: nobody knows who issued it."""
    own: int
    """The id in that cluster."""


def issued_by(nodes: VirtualNodes, client_id: int) -> Issued:
    """Whose producer a client speaks of."""
    node, own = issuer(client_id)
    broker = nodes.broker(node)
    return Issued(None, client_id) if broker is None else Issued(broker[0], own)


def shown(nodes: VirtualNodes, broker: tuple[str, int], own: int) -> int:
    """The id that the client gets for the one that a coordinator has issued."""
    return issued_id(own, nodes.ids[broker])
