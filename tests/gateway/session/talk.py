"""Plays a session without I/O: whole requests in, commands out, brokers answered by hand."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from gateway.authentication.accounts import KnownAccounts, Phantoms
from gateway.authentication.users import accounts
from gateway.model.copies import Copies
from gateway.model.counts import Counts
from gateway.model.topology import ClusterTopology, Topology
from gateway.quotas.charges import Meters
from gateway.session.commands import (
    BrokerLane,
    Cause,
    Close,
    Command,
    Compose,
    OffloadWork,
    ToClient,
    ToUpstream,
    VerifyLogin,
    Wake,
)
from gateway.session.discovery_rates import DiscoveryRates
from gateway.session.fast import fast_path
from gateway.session.login_rate_limiter import LoginRateLimiter
from gateway.session.open_transactions import Holders
from gateway.session.produce.duplicate_offsets import DuplicateOffsets
from gateway.session.produce.producer_order import ProducerOrders
from gateway.session.produce.writer_epochs import WriterEpochs
from gateway.session.readiness import AwaitingIdentity, Delayed, Preparation, Turn
from gateway.session.session import Session
from gateway.session.shared import Authentication, HeldBytes, Shared
from gateway.session.snapshot import Lease, Port, Snapshot, fences
from gateway.session.throttling import AwaitingQuota
from gateway.session.transaction_writes import Written
from ha_core.model import Cluster, View
from ha_core.plan.routing.bounded_cache import CacheBudget
from ha_core.wire import (
    RemoteProtocolError,
    WireLimits,
    advertised,
    decode,
    encode,
    encode_request,
    encode_response,
    read_request_header,
    response_body_at,
)
from ha_core.wire.sasl_steps import Bearer, Plain

PHANTOMS = Phantoms(b"the same at all gateways", 4096)
EAST = BrokerLane("east", 1)
WEST = BrokerLane("west", 1)
CLUSTERS = {
    "east": Cluster(name="east", bootstrap="e:1", default=True),
    "west": Cluster(name="west", bootstrap="w:1"),
}


class Nodes:
    """As all gateways know them: 11 is the east's broker, 21 the west's."""

    ids: ClassVar[dict[tuple[str, int], int]] = {("east", 1): 11, ("west", 1): 21}

    def broker(self, node_id: int) -> tuple[str, int] | None:
        return next((broker for broker, known in self.ids.items() if known == node_id), None)


NODES = Nodes()
APIS = dict.fromkeys(range(90), (0, 20))


def topology(**topics: dict[str, dict[int, int]]) -> Topology:
    """`east={"orders": {0: 1}}`: topic → partition → leader, per cluster."""
    return Topology(
        {name: ClusterTopology(name, True, {1: ("h", 1)}, topics.get(name, {}), APIS, "") for name in ("east", "west")}
    )


def snapshot(view: View | None = None, found: Topology | None = None) -> Snapshot:
    seen = found or topology()
    shown = view or View(1, CLUSTERS)
    return Snapshot(shown, seen, tuple(advertised(seen.apis())), fences=fences(shown))


class Asked(NamedTuple):
    """A whole request that reached a broker."""

    api_key: int
    version: int
    correlation_id: int
    body: dict[str, Any]

    @property
    def topics(self) -> list[str]:
        """The topics that a produce names."""
        return [topic["name"] for topic in self.body["topic_data"]]

    @property
    def records(self) -> bytes:
        """The records of the first partition of a produce."""
        records: bytes = self.body["topic_data"][0]["partition_data"][0]["records"]
        return records

    @property
    def partition(self) -> dict[str, Any]:
        """The first partition that a fetch, or a request for offsets, names."""
        partition: dict[str, Any] = self.body["topics"][0]["partitions"][0]
        return partition


class Talk:
    """A client's side of one session."""

    def __init__(
        self,
        state: Snapshot | None = None,
        port: Port = Port("east", 1),  # noqa: B008 - frozen
        *,
        users: dict[str, str] | None = None,
        authentication: Authentication | None = None,
        chunks: Callable[[bytes], list[bytes]] = lambda data: [data],
        lease: bool = True,
        limits: WireLimits | None = None,
        producer_orders: ProducerOrders | None = None,
        holders: Holders | None = None,
        discovery: DiscoveryRates | None = None,
        max_held: int = 1 << 30,
        address: str = "10.0.0.1",
        meters: Meters | None = None,
        fast: bool = True,
    ) -> None:
        """:param fast: use the fast path where possible, as in the driver."""
        self.fast = fast
        self.now = 100.0
        self.lease = Lease(1e9 if lease else 0.0)
        self.writer_epochs = WriterEpochs()
        self.writer_epochs.follow((state or snapshot()).view, self.now)
        self.ids = iter(range(1 << 44, 1 << 45))
        self.duplicate_offsets = DuplicateOffsets()
        self.copies = Copies()
        shared = Shared(
            limits or WireLimits(),
            authentication
            or Authentication(
                users is None,
                ("PLAIN",),
                KnownAccounts(accounts(users or {}).get, PHANTOMS, in_the_open=True),
                LoginRateLimiter(1_000),
            ),
            self.lease,
            lambda: next(self.ids),
            Counts(),
            self.writer_epochs,
            ProducerOrders() if producer_orders is None else producer_orders,
            self.duplicate_offsets,
            NODES,
            Holders() if holders is None else holders,
            self.copies,
            Meters() if meters is None else meters,
            DiscoveryRates() if discovery is None else discovery,
            HeldBytes(max_held),
            CacheBudget(),
            Written(),
        )
        self.session = Session(port, shared, state or snapshot(), address)
        self.accounts = shared.authentication.accounts
        self.chunks = chunks
        self.correlation = 0
        self.versions: list[tuple[int, int, int]] = []
        self.to_client = bytearray()
        self.upstream: dict[BrokerLane, bytearray] = {}
        self.closed: Close | None = None
        self.woken: list[float] = []
        self.others: list[Command] = []
        self.works: list[OffloadWork] = []
        self.works_later = False
        """Offloaded work that waits for `work`."""

    @property
    def cause(self) -> Cause | None:
        """The reason for which the gateway has closed the connection."""
        return None if self.closed is None else self.closed.cause

    @property
    def why(self) -> str:
        """The cause's detail, as the log has it; empty while the connection is open."""
        return "" if self.closed is None else self.closed.detail

    # -- client -------------------------------------------------------------------------------------------------

    def ask(self, api_key: int, version: int, body: dict[str, Any], client_id: str = "app") -> None:
        """The client sends a request."""
        self.correlation += 1
        if not (api_key == 0 and body.get("acks") == 0):
            self.versions.append((self.correlation, api_key, version))
        encoded = encode(api_key, version, "request", body)
        self.send(encode_request(api_key, version, self.correlation, client_id, encoded))

    def send(self, data: bytes) -> None:
        for chunk in self.chunks(data):
            buf = bytearray(self.session.intake.carry + chunk)
            if self.fast and not self.session.intake.carry and not self.session.throttling.timed:
                passed = fast_path.requests(self.session, buf, len(buf), self.now)
                if passed:
                    self.upstream.setdefault(self.session.context.broker, bytearray()).extend(buf[:passed])
                    del buf[:passed]
                    if not buf:
                        continue
            self.take(self.session.receive(buf, len(buf), self.now))

    def answers(self) -> list[dict[str, Any]]:
        """Whole answers that reached the client since the last call, in order, decoded."""
        found = []
        while len(self.to_client) >= 4:
            size = int.from_bytes(self.to_client[:4], "big")
            if len(self.to_client) < 4 + size:
                break
            frame = bytes(self.to_client[: 4 + size])
            del self.to_client[: 4 + size]
            correlation, api_key, version = self.versions.pop(0)
            assert int.from_bytes(frame[4:8], "big") == correlation, "answers out of order"
            if api_key == 18 and version > 3:
                version = 0
            at = response_body_at(api_key, version, frame, 4)
            found.append(decode(api_key, version, "response", frame[at:]))
        return found

    # -- brokers ------------------------------------------------------------------------------------------------

    def asked(self, lane: BrokerLane) -> list[Asked]:
        """Whole requests that reached a broker since the last call."""
        data = self.upstream.get(lane, bytearray())
        found = []
        while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
            end = 4 + int.from_bytes(data[:4], "big")
            header = read_request_header(data, 4, end)
            assert header is not None
            body = decode(header.api_key, header.api_version, "request", bytes(data[header.body_at : end]))
            found.append(Asked(header.api_key, header.api_version, header.correlation_id, body))
            del data[:end]
        return found

    def forwarded(
        self, api_key: int, version: int, body: dict[str, Any], *, to: BrokerLane, client_id: str = "app"
    ) -> Asked:
        """The client's request as the broker gets it, which gets no other one."""
        self.ask(api_key, version, body, client_id)
        (request,) = self.asked(to)
        return request

    def answer(self, lane: BrokerLane, request: Asked, body: dict[str, Any]) -> None:
        """A broker answers one of the requests that `asked` returned."""
        api_key, version, correlation, _ = request
        encoded = encode(api_key, version, "response", body)
        data = encode_response(api_key, version, correlation, encoded)
        self.broker_sends(lane, data)

    def broker_answers(self, lane: BrokerLane, body: dict[str, Any]) -> None:
        """A broker answers the only request that has reached it since the last call."""
        (request,) = self.asked(lane)
        self.answer(lane, request, body)

    def broker_sends(self, lane: BrokerLane, data: bytes) -> None:
        for chunk in self.chunks(data):
            upstream = self.session.upstreams.get(lane)
            buf = bytearray(bytes(upstream.carry if upstream is not None else b"") + chunk)
            if self.fast and upstream is not None and not upstream.carry and not self.session.throttling.timed:
                passed = fast_path.answers(self.session, upstream, buf, len(buf), self.now)
                self.to_client += buf[:passed]
                del buf[:passed]
                if passed and not buf:
                    continue
            self.take(self.session.receive_upstream(lane, buf, len(buf), self.now))

    @property
    def questions(self) -> list[Compose]:
        """Requests whose answers the session has others compose."""
        return [command for command in self.others if isinstance(command, Compose)]

    def composed(self, question: Compose, body: Any) -> None:
        """The answer to one of these is there."""
        self.take(self.session.answered(question.token, body, self.now))

    def lose(self, lane: BrokerLane) -> None:
        self.take(self.session.upstream_lost(lane, "gone", self.now))

    # -- the gateway --------------------------------------------------------------------------------------------

    def follow(self, state: Snapshot) -> None:
        self.writer_epochs.follow(state.view, self.now)
        self.take(self.session.follow(state, self.now))

    def wait(self, seconds: float) -> None:
        """Time passes; due wake-ups happen."""
        self.now += seconds
        self.take(self.session.tick(self.now))

    def work(self) -> None:
        """Completes the first offloaded work."""
        command = self.works.pop(0)
        try:
            done = command.work()
        except RemoteProtocolError as error:
            self.take(self.session.unanswerable(command.token, command.cause, str(error), self.now))
        else:
            self.take(self.session.worked(command.token, done, self.now))

    def verify_login(self) -> None:
        """Checks a claim, and passes the result to the session."""
        (asked,) = [command for command in self.others if isinstance(command, VerifyLogin)]
        self.others.remove(asked)
        assert isinstance(self.accounts, KnownAccounts)
        assert isinstance(asked.question, Plain | Bearer)
        self.take(self.session.verified(self.accounts.find_out(asked.question), self.now))

    def take(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, ToClient):
                self.to_client += command.data
            elif isinstance(command, ToUpstream):
                self.upstream.setdefault(command.lane, bytearray()).extend(command.data)
            elif isinstance(command, Close):
                self.closed = command
            elif isinstance(command, Wake):
                self.woken.append(command.at)
            elif isinstance(command, OffloadWork):
                self.works.append(command)
            else:
                self.others.append(command)
        while self.works and not self.works_later:
            self.work()
        if (
            isinstance(self.session.intake.waits_for, Turn | AwaitingIdentity | Preparation | AwaitingQuota | Delayed)
            and self.session.may_go_on
        ):
            buf = bytearray(self.session.intake.carry)
            self.take(self.session.receive(buf, len(buf), self.now))
