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
from typing import Any, NamedTuple, Protocol

from gateway.session.produce.verdict import Key, ProduceVerdict
from ha_core.model.producer import is_gateway_id, issued_id, issuer
from ha_core.wire import ErrorCode
from ha_core.wire.produce import ProduceScan
from ha_core.wire.records import batches, rewrite_producer_id


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


def settle(
    frame: Any, scan: ProduceScan, verdict: ProduceVerdict, nodes: VirtualNodes, cluster: str | None
) -> ProduceVerdict:
    """The verdict on a transactional request, on top of what was decided on its partitions.

    Ids of what is forwarded are rewritten in place to those of `cluster`; what another cluster's producer wrote is
    refused. A partition that is not here at all keeps its answer: the client has to find the leader first.

    :param frame: buffer that holds the whole request, positions as in `scan`.
    """
    refused: dict[Key, ErrorCode] = {}
    for topic, partition, at, length in scan.partitions:
        if length <= 0 or (topic, partition) in verdict.refused:
            continue
        for batch in batches(frame, at, at + length):
            if batch.producer_id < 0 or is_gateway_id(batch.producer_id):
                continue
            issued = issued_by(nodes, batch.producer_id)
            if issued.cluster == cluster:
                rewrite_producer_id(frame, batch.at, issued.own)
            else:
                refused[topic, partition] = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return verdict._replace(refused={**verdict.refused, **refused}) if refused else verdict
