"""What is there: clusters and their state, operations that have not ended, declared usage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ha_core.model import Cluster, Operation, Use, View
from ha_core.moves.context import Environment
from ha_core.moves.errors import RefusedError
from ha_core.plan.move import FINAL
from ha_core.plan.returned import gone_for_good
from ha_core.store.change import Change
from ha_core.store.protocol import Sighting

MAX_LISTED = 10_000
"""Operations that a listing looks through, those that have ended too."""
LOOK_S = 3.0


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A registered cluster and what a look at it found."""

    cluster: Cluster
    reachable: bool
    error: str
    brokers: int
    answers: bool = False
    """Something of it is alive, also where not all of it is."""

    @property
    def words(self) -> str:
        if self.reachable:
            return f"reachable, {self.brokers} brokers"
        return f"answers, but: {self.error}" if self.answers else f"not reachable: {self.error}"

    @property
    def mask_words(self) -> str:
        masked = self.cluster.masked
        return f"since {masked.since} by {masked.by}: {masked.reason}" if masked else ""

    def to_json(self) -> dict[str, Any]:
        return {
            **self.cluster.model_dump(mode="json", exclude={"schema_"}),
            "reachable": self.reachable,
            "brokers": self.brokers,
            "error": self.error,
        }


def cluster_states(environment: Environment) -> tuple[ClusterState, ...]:
    """Every registered cluster, all asked at once."""
    clusters = [cluster for _, cluster in sorted(environment.store.load().clusters.items())]
    return tuple(environment.pool.map(lambda cluster: _state(environment, cluster), clusters))


def _state(environment: Environment, cluster: Cluster) -> ClusterState:
    try:
        found = environment.admin(cluster).probe(timeout_s=LOOK_S)
    except RefusedError as error:
        return ClusterState(cluster, False, str(error), 0)
    return ClusterState(cluster, found.reachable, found.error, len(found.brokers), found.answers)


def running_operations(environment: Environment) -> tuple[Operation, ...]:
    """Operations that have not ended, newest first."""
    return tuple(o for o in environment.store.running() if o.state not in FINAL)


def add_cluster(
    environment: Environment, name: str, bootstrap: str, security: str = "none", default: bool = False
) -> tuple[int, bool]:
    """Register a cluster or change how it is reached. Returns the revision, and whether anything changed.

    :raises RefusedError: the name or the address is not usable, or another cluster is the default already.
    """
    store = environment.store
    found = store.read(Cluster, name)
    try:
        wanted = Cluster(
            name=name,
            bootstrap=bootstrap,
            security=security,
            default=default,
            masked=found[0].masked if found else None,
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RefusedError(f"Cluster {name!r}: {where} {first['input']!r} is not usable: {first['msg']}.") from error
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise RefusedError(f"Cluster {name}: bootstrap {address!r} is not host:port. Write host:port[,host:port…].")
    view = store.load()
    others = [c.name for c in view.clusters.values() if c.default and c.name != name]
    if default and others:
        raise RefusedError(f"Cluster {others[0]} is the default already. Add it again without --default first.")
    if found is not None and found[0] == wanted:
        return view.revision, False
    revision = store.commit(_change(environment, f"add-{name}", puts=(wanted,), version=found[1] if found else None))
    return revision, True


def remove_cluster(environment: Environment, name: str) -> int:
    """Forget a cluster that no binding, map or group refers to. Returns the revision.

    :raises RefusedError: unknown, or still referred to.
    """
    store = environment.store
    found = store.read(Cluster, name)
    view = store.load()
    if found is None:
        raise RefusedError(
            f"There is no cluster {name!r} (known: {', '.join(sorted(view.clusters)) or 'none'}). Check the name."
        )
    uses = references(view, name)
    if uses:
        more = f" and {len(uses) - 5} more" if len(uses) > 5 else ""
        raise RefusedError(
            f"Cluster {name} is still referred to by {', '.join(uses[:5])}{more}. Move them away first; "
            f"{gone_for_good(name)}."
        )
    change = Change(
        deletes=((Cluster, name),),
        expected={(Cluster, name): found[1]},
        change_id=_change_id(environment, f"remove-{name}"),
        operation=None,
        epoch=None,
        step="clusters",
    )
    return store.commit(change)


def references(view: View, cluster: str) -> tuple[str, ...]:
    """What of the state names `cluster`."""
    bound = [
        f"binding of {user}"
        for user, b in view.bindings.items()
        if cluster in {b.cluster, *b.instances.values(), *b.topics.values(), *b.groups.values()}
    ]
    mapped = [
        f"topic {name}"
        for name, topic in view.topics.items()
        if topic.writer == cluster
        or any(e.cluster == cluster for extents in topic.partitions.values() for e in extents)
    ]
    groups = [f"group {name}" for name, group in view.groups.items() if group.cluster == cluster]
    return tuple(sorted([*bound, *mapped, *groups]))


def declare_usage(
    environment: Environment, user: str, topics: tuple[str, ...], groups: tuple[str, ...], instance: str = ""
) -> None:
    """Record that `user` uses `topics` and `groups`."""
    use = Use(instance=instance, how="declared", since=environment.now())
    left_out = environment.store.record_usage(
        user,
        [
            *(Sighting("topic", name, use) for name in topics),
            *(Sighting("group", name, use) for name in groups),
        ],
    )
    if left_out:
        raise RefusedError(
            f"{left_out} of the uses of {user} did not fit: the usage of one user is bounded. "
            "Name further topics in the scope of a move itself (topic:NAME)."
        )


def _change(environment: Environment, what: str, puts: tuple[Cluster, ...], version: int | None) -> Change:
    return Change(
        puts=puts,
        expected={(Cluster, put.name): version for put in puts},
        change_id=_change_id(environment, what),
        operation=None,
        epoch=None,
        step="clusters",
    )


def _change_id(environment: Environment, what: str) -> str:
    import uuid

    return f"clusters:{what}:{environment.now()}:{uuid.uuid4().hex[:8]}"
