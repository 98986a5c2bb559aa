"""A live gateway, as it says of itself in its ephemeral node."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from ha_core.model.document import Document


class GatewayRecord(Document):
    """`/gateways/{id}`. The node vanishes with the gateway's session; until then operations wait for it."""

    FOLDER = "/gateways"
    KEY = "id"

    id: str
    worker_of: str = ""
    """The gateway of which this is a worker: a process of several that share its bootstrap port; "": the only one."""
    workers: int = 0
    """Of a worker: how many its gateway was started with."""
    host: str
    port: int
    """Bootstrap listener, as clients reach it."""
    http: str = ""
    """`http://host:port` of health and metrics."""
    node_id: int
    version: str = ""
    zone: str = ""
    revision: int = 0
    """Newest revision that every session of this gateway follows."""
    drained: tuple[str, ...] = ()
    """Operations whose fence this gateway follows and of whose topics and groups nothing is in flight any more."""
    crossings: bool = False
    """Knows topics whose cut lies ahead; one that does not would write to the target at once."""
    records_facts: bool = False
    """Can keep what is known of clusters fresh; the first such gateway by id does."""
    takes_care: bool = False
    """Can go on with operations whose executor is gone; the first two such gateways by id do."""
    out_of_date: dict[str, str] = {}
    """Clusters that do not answer it → when what it serves of them was seen (UTC, ISO 8601)."""
    lease_ms: int = 0
    first_node_port: int = 0
    """Virtual node n of this gateway listens on `first_node_port + n`."""
    nodes: tuple[int, ...] = ()
    """Virtual nodes whose listeners this gateway has bound."""

    @property
    def gateway(self) -> str:
        """What people call it: a worker is a part of its gateway."""
        return self.worker_of or self.id


class ExpectedGateway(Document):
    """`/expected_gateways/{gateway}`: a gateway that has registered and was not stopped since.

    The gateway writes it after its ephemeral record and removes it when it is told to end, so one without a live
    record has died or hangs. Workers of one gateway share the document.
    """

    FOLDER = "/expected_gateways"
    KEY = "gateway"

    gateway: str
    host: str
    port: int
    """Bootstrap listener."""
    since: str
    """When it registered last. UTC, ISO 8601."""


def by_gateway(records: Iterable[GatewayRecord]) -> dict[str, list[GatewayRecord]]:
    """Gateway → its workers, or itself; in order of their ids."""
    found: dict[str, list[GatewayRecord]] = {}
    for record in sorted(records, key=lambda one: (one.gateway, one.id)):
        found.setdefault(record.gateway, []).append(record)
    return found


class VirtualNode(Document):
    """`/nodes/{key}`: an id and port index of its own for each broker of each cluster and for each gateway.

    Allocated once and never reused, so that ids are unique over all clusters whatever the brokers call themselves.
    """

    FOLDER = "/nodes"
    KEY = "key"

    key: str
    """`{cluster}:{broker id}` or `gateway:{gateway id}`."""
    node_id: int = Field(ge=1)
