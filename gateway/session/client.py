"""The client of a session: its login, its rights, and the routes of its topics and groups."""

from collections.abc import Iterable

from gateway.model.local_names import LocalNames, LocalVerdicts, local_names
from gateway.model.remote_topics import RemoteVerdicts, led_to
from gateway.session.auth_state import Anonymous, AuthState, SaslInProgress, TlsAuthenticated
from gateway.session.client_ids import ByClientId
from gateway.session.context import SessionContext
from gateway.session.open_transactions import OpenTransactions
from gateway.session.routes import Routes
from gateway.session.snapshot import Snapshot
from gateway.session.throttling import Throttling
from ha_core.model import ANONYMOUS
from ha_core.plan.access.rights import Verdicts


class SessionClient:
    """:ivar software: `NAME/VERSION` of the client, if it has sent them.
    :ivar client_id: client id of the newest request whose routes were looked up.
    :ivar producer_order: shared by all sessions of the user.
    """

    __slots__ = (
        "_context",
        "_named",
        "_remote",
        "_routes",
        "_throttling",
        "auth_state",
        "client_id",
        "producer_order",
        "software",
        "transactions",
    )  # fmt: skip

    def __init__(self, context: SessionContext, throttling: Throttling) -> None:
        shared = context.shared
        self._context, self._throttling = context, throttling
        self._routes: ByClientId[Routes] = ByClientId()
        self._remote: tuple[Verdicts | None, Snapshot, RemoteVerdicts] | None = None
        """Rights where a flow writes in the port's cluster, and what they were made of."""
        self._named: tuple[tuple[object, ...], LocalVerdicts] | None = None
        """Rights by the local names of remote topics, and what they were made of."""
        self.auth_state: AuthState = Anonymous(shared.authentication.anonymous)
        self.software: str | None = None
        self.client_id: str | None = None
        self.transactions = OpenTransactions(shared.transactions, context.port.cluster)
        self.producer_order = shared.producer_orders.of(None)

    def enter(self, auth_state: SaslInProgress, user: str, expires_at: float) -> None:
        """The client has authenticated."""
        self.auth_state = auth_state.authenticated(user, expires_at)
        self._is(user)

    def recognise(self, user: str) -> None:
        """The client has presented the user's certificate; called before it has sent anything."""
        self.auth_state = TlsAuthenticated(user)
        self._is(user)

    def _is(self, user: str) -> None:
        self.transactions.user = user
        self.producer_order = self._context.shared.producer_orders.of(user, self._context.now)
        self._throttling.enter(user)

    def routes(self, client_id: str | None) -> Routes:
        """Routes for the identity of a request."""
        routes = self._routes.get(client_id)
        if routes is None:
            self.client_id = client_id
            context = self._context
            snapshot = context.snapshot
            identity = snapshot.view.identify(self.auth_state.user, client_id)
            names = local_names(snapshot.view, identity, snapshot.remote_topics, snapshot.topology)
            verdicts = self.verdicts if names is None or context.port.direct else self._by_local_names(names)
            routes = Routes(snapshot, identity, context.port, verdicts, context.shared.remembered)
            self._routes.keep(client_id, routes)
        return routes

    def forget_routes(self) -> None:
        """The snapshot or the user is another one."""
        self._routes.clear()

    def fenced(self, operation: str, client_id: str | None) -> None:
        """The operation's fence has refused a request of the client, which counts for the user whose bindings led it:
        without a login, the one that its client id names."""
        user = self.routes(client_id).identity.user
        self._context.shared.counts.fences.refused(operation, user, self._context.now)

    @property
    def rules(self) -> Verdicts | None:
        """Rights of the client by the rules; None: everything.

        They depend on the authenticated user: a client id, which may name another one, grants nothing.
        """
        rights = self._context.snapshot.rights
        return None if rights is None else rights.of(self.auth_state.user or ANONYMOUS, self._context.address)

    @property
    def verdicts(self) -> Verdicts | None:
        """Rights of the client in the port's cluster, where flows may write; None: everything."""
        snapshot, cluster, rules = self._context.snapshot, self._context.port.cluster, self.rules
        if cluster is None or not snapshot.remote_topics.concerns(snapshot.topology.cluster_id(cluster)):
            return rules
        known = self._remote
        if known is None or known[0] is not rules or not _judges_alike(known[1], snapshot, cluster):

            def places(name: str) -> Iterable[str]:
                return map(snapshot.topology.cluster_id, led_to(snapshot.view, name, cluster))

            known = self._remote = rules, snapshot, RemoteVerdicts(rules, snapshot.remote_topics, places)
        return known[2]

    def _by_local_names(self, names: LocalNames) -> LocalVerdicts:
        """Rights by local names. They stay one object until something of them changes: long requests are judged beside
        the event loop."""
        snapshot, base, rules = self._context.snapshot, self.verdicts, self.rules
        cluster_id = snapshot.topology.cluster_id(names.cluster)
        made_of = (base, rules, snapshot.view, snapshot.remote_topics, names.cluster, cluster_id)
        known = self._named
        if known is None or any(one is not other for one, other in zip(known[0], made_of, strict=True)):
            verdicts = LocalVerdicts(base, rules, names, snapshot.remote_topics, cluster_id)
            known = self._named = made_of, verdicts
        return known[1]


def _judges_alike(before: Snapshot, now: Snapshot, cluster: str) -> bool:
    """True if both snapshots have the same remote topics at the port: a long request that was judged by one of them
    need not be judged again."""
    same = before.view is now.view and before.remote_topics is now.remote_topics
    return same and before.topology.cluster_id(cluster) == now.topology.cluster_id(cluster)
