"""A live gateway, as its ephemeral node describes it."""

from collections.abc import Iterable

from pydantic import Field

from ha_core.model.document import Document, Part


class FenceCost(Part):
    """Cost of one operation's fence for clients of one gateway."""

    refused: int = 0
    """Requests that were refused, to be sent again."""
    users: dict[str, tuple[int, float]] = {}
    """User → its refused requests, and the milliseconds from the first of them to the fence's end at this gateway."""
    users_left_out: int = 0
    """Further users, whose requests are in `refused` only."""


class GatewayRecord(Document):
    """`/gateways/{id}`. The node vanishes with the gateway's session; until then operations wait for it."""

    FOLDER = "/gateways"
    KEY = "id"

    id: str
    worker_of: str = ""
    """The gateway that this worker belongs to, one of several processes that share its bootstrap port; "": the only
    process."""
    workers: int = 0
    """Number of workers that its gateway was started with; 0: not a worker."""
    host: str
    port: int
    """Bootstrap listener, as clients reach it."""
    http: str = ""
    """`http://host:port` of health and metrics."""
    node_id: int
    version: str = ""
    zone: str = ""
    revision: int = 0
    """Newest revision that all sessions of this gateway apply."""
    drained: tuple[str, ...] = ()
    """Operations whose fence this gateway applies and whose topics and groups have no request in flight any more."""
    crossings: bool = False
    """It supports crossings; a gateway that does not would write to the target at once."""
    records_facts: bool = False
    """It can record facts of clusters; the first such gateway by id does."""
    takes_care: bool = False
    """It can continue orphans; the first two such gateways by id do."""
    out_of_date: dict[str, str] = {}
    """Clusters that do not answer it → when it saw the metadata that it serves of them (UTC, ISO 8601)."""
    leaving: bool = False
    """It ends in order: no client is sent to it any more, but operations wait for it as long as it serves."""
    lease_ms: int = 0
    fence_costs: dict[str, FenceCost] | None = None
    """Operation → cost of its fence here, of the newest operations; None: this version does not count it."""
    first_node_port: int = 0
    """Virtual node n of this gateway listens on `first_node_port + n`."""
    nodes: tuple[int, ...] = ()
    """Virtual nodes whose listeners this gateway has bound."""

    @property
    def gateway(self) -> str:
        """Id of the gateway that operators see, for a worker that of its gateway."""
        return self.worker_of or self.id


class ExpectedGateway(Document):
    """`/expected_gateways/{gateway}`: a gateway that has registered and was not stopped since, or that is declared.

    The gateway writes it after its ephemeral record and removes it in an orderly stop, so one without a live record
    has died or hangs. That of a declared gateway stays, with the time of the stop. Workers of one gateway share the
    document.
    """

    FOLDER = "/expected_gateways"
    KEY = "gateway"

    gateway: str
    host: str = ""
    port: int = 0
    """Bootstrap listener; empty and 0: it has never registered."""
    since: str = ""
    """Last registration. UTC, ISO 8601; empty: never."""
    declared: bool = False
    """An operator has declared it by name."""
    stopped: str = ""
    """Its orderly stop after that. UTC, ISO 8601; empty: none."""


class ExpectedNumber(Document):
    """`/expected_number/gateways`: how many gateways an operator expects, whatever their ids are."""

    FOLDER = "/expected_number"

    name: str = "gateways"
    number: int = Field(ge=1)
    by: str
    since: str
    """UTC, ISO 8601."""


def by_gateway(records: Iterable[GatewayRecord]) -> dict[str, list[GatewayRecord]]:
    """Gateway → its workers, or itself; in order of their ids."""
    gateways: dict[str, list[GatewayRecord]] = {}
    for record in sorted(records, key=lambda record: (record.gateway, record.id)):
        gateways.setdefault(record.gateway, []).append(record)
    return gateways


class VirtualNode(Document):
    """`/nodes/{key}`: an id and port index of its own for each broker of each cluster and for each gateway.

    Allocated once and never reused, so ids are unique over all clusters, whatever ids the brokers have.
    """

    FOLDER = "/nodes"
    KEY = "key"

    key: str
    """`{cluster}:{broker id}` or `gateway:{gateway id}`."""
    node_id: int = Field(ge=1)
