"""The connections of all clients: admission, limits, and the causes of their ends."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable

from gateway.config import Config
from gateway.model.counts import Counts
from gateway.process.sockets.admission import BrokerConnections, ConnectionShares, Logins, UnauthenticatedReads, share
from gateway.process.sockets.connection import ClientConnection
from gateway.process.sockets.handshakes import Arrived, Handshakes
from gateway.process.sockets.lingering_close import LingeringClose, close_gracefully, release
from gateway.process.sockets.listeners import Listeners
from gateway.runtime import clock, descriptors
from gateway.runtime.log_rate_limiter import LogRateLimiter
from gateway.runtime.time_sliced_sweep import TimeSlicedSweep
from gateway.session.commands import Cause
from gateway.session.login_rate_limiter import network
from gateway.session.snapshot import Port

_log = logging.getLogger(__name__)

SWEEP_EVERY_S = 1.0


class Clients:
    """:ivar open: all connections, including those that are being closed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: Config,
        counts: Counts,
        connect: Callable[[Arrived], ClientConnection],
    ) -> None:
        """:param connect: makes a connection of an accepted client, after its TLS handshake if there is one."""
        self._auth, self._limits, self._connect = config.authentication, config.limits, connect
        self.open: set[ClientConnection] = set()
        self.accepted = 0
        self.turned_away: Counter[str] = Counter()
        """By the limit that was reached."""
        self._from: Counter[str] = Counter()
        """Connections by source network: an IPv4 address, or the first half of an IPv6 address."""
        self.ended: Counter[str] = Counter()
        self.kept_bytes = 0
        """Bytes of answers that clients have not taken yet."""
        self.max_connections = config.limits.max_connections
        self.max_leaving = 1 << 20
        """Limit of sockets of clients that have left and take their last answers."""
        self.brokers = BrokerConnections()
        self.logins = Logins[ClientConnection](config.limits.max_logins, config.limits.login_ms / 1000)
        self._shares = ConnectionShares()
        self._log_rate_limiter = LogRateLimiter()
        self.unauthenticated_reads = UnauthenticatedReads(loop)
        self.listeners = Listeners(
            loop, self._has_room, lambda: self.unauthenticated_reads.busy, self._arrived, self._log_rate_limiter
        )
        self._named_elsewhere = 2 * config.follows("users")
        """Users whom the platform may name: as with certificates."""
        self._certified = 0 if config.tls is None or not config.tls.principal_rules else 2
        """Users whom certificates may name: 0, or 2 for an unknown number."""
        self.handshakes: Handshakes | None = None
        """None: the listeners do not use TLS."""
        if config.tls is not None:
            max_logins, patience_s = self._limits.max_handshakes, self._limits.handshake_ms / 1000
            server = config.tls.server
            self.handshakes = Handshakes(
                loop, server, max_logins, patience_s, counts, self._log_rate_limiter, self._admit
            )
        self.lingering = LingeringClose(loop)
        self._idle = TimeSlicedSweep[ClientConnection](loop, self._end_idle)

    def fit_limits(self) -> None:
        """Lowers the limits to fit the process's limit of open files."""
        limit, wanted = descriptors.raised(), self.max_connections
        self.max_connections = min(wanted, descriptors.connections(limit))
        self.brokers.limit, self.max_leaving = descriptors.divide(limit, self.max_connections)
        if self.max_connections < wanted:
            _log.warning(
                "this process may open %d files, so %d clients are served at once and not limits.max_connections=%d; "
                "raise its limit (ulimit -n, LimitNOFILE) to %d",
                *(limit, self.max_connections, wanted, descriptors.needed(wanted)),
            )

    def entered(self, connection: ClientConnection) -> None:
        self.logins.entered(connection)
        limit = self._most_per_user
        if not self._shares.admit(connection, connection.named, limit):
            connection.leave(Cause.TOO_MANY, f"the user has {limit} connections here, and may have no more")

    def connection_closed(self, connection: ClientConnection, cause: Cause, detail: str) -> None:
        self.open.discard(connection)
        self.kept_bytes -= connection.kept_bytes
        connection.kept_bytes = 0
        self.logins.entered(connection)
        self._shares.release(connection)
        origin = network(connection.address)
        self._from[origin] -= 1
        if self._from[origin] <= 0:
            del self._from[origin]
        self.ended[cause.value] += 1
        ordinary = cause in (Cause.CLIENT_LEFT, Cause.IDLE, Cause.SHUTDOWN)
        if not ordinary and self._log_rate_limiter.lets(f"closed connections, cause={cause.value}", clock.now()):
            user, port = connection.session.client.auth_state.user, connection.session.context.port
            fields = (cause.value, user, connection.address, port, detail)
            _log.info("closed a connection: cause=%s user=%s address=%s port=%s %s", *fields)

    def keeps(self, connection: ClientConnection, count: int) -> None:
        """Notes how many bytes of answers wait for a client. If all clients together exceed the limit, closes the
        connections with the most.

        A client that sends requests and does not read answers makes the gateway keep megabytes for each of its
        connections. Clients that read have few bytes here and stay connected.
        """
        self.kept_bytes += count - connection.kept_bytes
        connection.kept_bytes = count
        limit = self._limits.max_held_bytes
        while self.kept_bytes > limit:
            worst = max(self.open, key=lambda each: each.kept_bytes)
            before = worst.kept_bytes
            if not before:
                return
            why = f"{before} bytes of answers wait for the client to take them, {self.kept_bytes} of all clients"
            worst.cut_off(Cause.HELD_TOO_MUCH, f"{why}, above {limit} (limits.max_held_bytes)")
            if worst.kept_bytes >= before:
                return

    def has_room_for_broker(self, connection: ClientConnection) -> bool:
        """Whether the client may open one more connection to a broker, beyond its first."""
        if self.brokers.room(connection):
            return True
        text = (
            f"user={connection.named} address={connection.address} has {len(connection.brokers)} connections to "
            f"brokers; all clients have {self.brokers.further} beyond the first of each, and may have no more: raise "
            "the limit of open files (ulimit -n, LimitNOFILE)"
        )
        self.say("further connections to brokers refused", text)
        return False

    def say(self, kind: str, text: str) -> None:
        """Writes a rate-limited line, since one cause can write thousands; kinds are few."""
        if self._log_rate_limiter.lets(kind, clock.now()):
            _log.info("%s: %s", kind, text)

    async def sweep(self) -> None:
        """Ends connections that are overdue or idle; never returns."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            now = clock.now()
            if self.handshakes is not None:
                self.handshakes.sweep()
            for connection in self.logins.overdue(now):
                connection.end(Cause.NOT_AUTHENTICATED, f"no login within {self._limits.login_ms} ms")
            for kind, count in self._log_rate_limiter.left_out(now):
                _log.info("%s: %d more lines of this kind were left out", kind, count)
            self._idle.visit_all(self.open)

    async def release(self) -> None:
        """Lets clients go to other gateways, which they are told about, before the listeners close."""
        await release(self.open)

    async def stop(self) -> None:
        """Accepts nothing more from clients, and answers requests in flight."""
        self.listeners.close()
        if self.handshakes is not None:
            self.handshakes.close()
        await close_gracefully(self.open, self.lingering)

    @property
    def _most_per_user(self) -> int:
        configured = self._limits.max_connections_per_user
        # Users that an issuer, certificates or the platform name cannot be counted: they are taken for several.
        users = len(self._auth.users) + self._auth.anonymous + 2 * (self._auth.oauth is not None)
        users += self._certified + self._named_elsewhere
        return share(self.max_connections, users) if configured is None else configured

    def _has_room(self) -> bool:
        if self.handshakes is not None and not self.handshakes.has_room():
            return False
        room, overstayed = self.logins.room(clock.now())
        if overstayed is not None:
            overstayed.end(Cause.NOT_AUTHENTICATED, "others wait for their turn to log in")
        return room

    def _arrived(self, sock: socket.socket, port: Port, host: str) -> None:
        shaking_hands = 0 if self.handshakes is None else len(self.handshakes)
        if len(self.open) + shaking_hands >= self.max_connections:
            self._turn_away(sock, "max_connections", self.max_connections, host)
            return
        if self._has_its_share(host):
            self._turn_away(sock, "max_connections_per_address", self._limits.max_connections_per_address, host)
            return
        # The oldest leave first. At a stop all clients leave at once, and none arrives.
        limit = self.max_connections + self.max_leaving
        while (left := len(self.lingering)) and len(self.open) + shaking_hands + left >= limit:
            self.lingering.end_oldest()
        self.accepted += 1
        client = Arrived(sock, port, host)
        if self.handshakes is None:
            self._admit(client)
        else:
            self.handshakes.start(client)

    def _has_its_share(self, host: str) -> bool:
        limit = self._limits.max_connections_per_address
        return limit is not None and self._from[network(host)] >= limit

    def _turn_away(self, sock: socket.socket, limit: str, allowed: int | None, host: str) -> None:
        self.turned_away[limit] += 1
        self.say("connections turned away", f"limits.{limit}={allowed} is reached address={host}")
        sock.close()

    def _admit(self, client: Arrived) -> None:
        if self._has_its_share(client.host):  # others have come from there while it shook hands
            self._turn_away(
                client.sock, "max_connections_per_address", self._limits.max_connections_per_address, client.host
            )
            return
        connection = self._connect(client)
        self._from[network(client.host)] += 1
        self.open.add(connection)
        if connection.session.client.auth_state.may_request:
            self.entered(connection)
        else:
            self.logins.came(connection, clock.now())

    def _end_idle(self, connection: ClientConnection) -> None:
        connection.end_if_late(self._limits.frame_ms / 1000, self._limits.min_produce_bytes_s)
        idle_s = clock.now() - connection.used_at
        if idle_s > self._limits.idle_ms / 1000 and connection.session.idle:
            connection.end(Cause.IDLE)
