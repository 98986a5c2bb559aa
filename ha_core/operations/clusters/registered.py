"""Registered clusters and their state, operations that have not ended, declared usage."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ha_core.model import Cluster, Mirror, MoveSet, Operation, Use, View
from ha_core.model.cluster import parse_bootstrap
from ha_core.model.identity import NEAREST
from ha_core.operations.clusters.collect_facts import gather
from ha_core.operations.clusters.masking import dependents_of, move_first
from ha_core.operations.engine.cluster_admins import no_such_cluster
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, refused_direct, unchanged
from ha_core.operations.engine.report import Report
from ha_core.operations.engine.single import Expected, run_single
from ha_core.plan.absence.decision import gone_for_good
from ha_core.plan.engine.revision import FINAL, AnyOperation
from ha_core.plan.facts.clusters import ClusterFacts
from ha_core.plan.facts.verdict import amount, listed
from ha_core.store.usage import Sighting, TooManyUsersError

MAX_LISTED = 10_000
"""Operations that a listing reads, including those that have ended."""
LOOK_S = 3.0


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A registered cluster and the result of a look at it."""

    cluster: Cluster
    facts: ClusterFacts

    @property
    def words(self) -> str:
        if self.facts.reachable:
            return f"reachable, {amount(len(self.facts.brokers), 'broker')}"
        return f"answers, but: {self.facts.error}" if self.facts.answers else f"not reachable: {self.facts.error}"

    @property
    def mask_words(self) -> str:
        masked = self.cluster.masked
        return f"since {masked.since} by {masked.by}: {masked.reason}" if masked else ""

    def to_json(self) -> dict[str, Any]:
        return {
            **self.cluster.model_dump(mode="json", exclude={"schema_"}),
            "reachable": self.facts.reachable,
            "brokers": len(self.facts.brokers),
            "error": self.facts.error,
        }


def cluster_states(environment: Environment) -> tuple[ClusterState, ...]:
    """Every registered cluster, all asked at once."""
    view = environment.store.load(left_out=(Mirror,))
    facts = gather(environment, view, view.clusters, MoveSet(), LOOK_S).clusters
    return tuple(ClusterState(cluster, facts[name]) for name, cluster in sorted(view.clusters.items()))


def running_operations(environment: Environment) -> tuple[Operation, ...]:
    """Operations that have not ended, newest first."""
    return tuple(o for o in environment.store.running() if o.state not in FINAL)


def known_operation(environment: Environment, operation_id: str, kind: type[AnyOperation]) -> AnyOperation:
    """:raises RefusedError: there is no such operation of that kind."""
    found = environment.operation_of(kind, operation_id)
    if found is None:
        raise RefusedError(f"There is no {kind.NOUN} {operation_id}. `switchyard history` lists all.")
    return found


def require_alive(environment: Environment, name: str, bootstrap: str, security: str = "none") -> str:
    """Look at a cluster before it is registered; returns a description.

    :raises RefusedError: no broker answers there, the account is refused, or it is another registered cluster: then a
        move between the two names would find its own records in the target.
    """
    _, wanted = _wanted(environment, name, bootstrap, security)
    view = environment.store.load()
    probe = environment.admin(wanted).probe(timeout_s=LOOK_S)
    if not probe.reachable:
        raise unchanged(
            f"{probe.error} Correct the address or the security profile, or give --unprobed to register {name} as it "
            "is."
        )

    def same(other: Cluster) -> bool:
        try:
            return environment.admin(other).probe(timeout_s=LOOK_S).cluster_id == probe.cluster_id
        except RefusedError:
            return False

    others = [cluster for _, cluster in sorted(view.clusters.items()) if cluster.name != name]
    for twin, is_same in zip(others, environment.pool.map(same, others), strict=True):
        if is_same and probe.cluster_id:
            raise unchanged(
                f"{bootstrap} is the cluster {twin.name} ({twin.bootstrap}): both have the "
                f"id {probe.cluster_id}. Give the address of another cluster."
            )
    return f"{amount(len(probe.brokers), 'broker')}, cluster id {probe.cluster_id or 'unknown'}"


def require_same(environment: Environment, cluster: Cluster, bootstrap: str, security: str) -> None:
    """:raises RefusedError: another cluster answers there than at the registered address of `cluster`."""
    _, wanted = _wanted(environment, cluster.name, bootstrap, security)
    here, there = (environment.admin(one).probe(timeout_s=LOOK_S).cluster_id for one in (cluster, wanted))
    if here and there and here != there:
        raise unchanged(
            f"{bootstrap} is another cluster (id {there}) than {cluster.name} at {cluster.bootstrap} (id {here}). If "
            f"{cluster.name} was rebuilt, run `switchyard clusters add {cluster.name} --bootstrap {bootstrap}`."
        )


def add_cluster(
    environment: Environment,
    name: str,
    bootstrap: str,
    security: str = "none",
    default: bool | None = None,
    reason: str = "registered by hand",
    zone: str | None = None,
    super_users: Collection[str] | None = None,
    platform_us: int | None = None,
) -> tuple[int, bool]:
    """Register a cluster or change how it is reached. Returns the revision, and whether anything changed.

    :param default: None: unchanged. A new address must not take the default from users without a binding.
    :param zone: None: unchanged; empty: in no zone.
    :param super_users: None: unchanged; else they replace the others, without empty ones.
    :param platform_us: time of the platform's change; None: the change does not come from the platform.
    :raises RefusedError: the name or the address is not usable, or another cluster is the default already.
    """
    store = environment.store
    found, wanted = _wanted(environment, name, bootstrap, security, default, zone, super_users)
    if platform_us is not None:
        wanted = wanted.changed(platform_us=platform_us)
    view = store.load()
    others = [c.name for c in view.clusters.values() if c.default and c.name != name]
    if default and others:
        raise RefusedError(f"Cluster {others[0]} is the default already. Add it again with --no-default first.")
    if found is not None and found[0] == wanted:
        return view.revision, False
    detail = {"cluster": name, "bootstrap": bootstrap, "security": security, "default": wanted.default}
    if wanted.zone is not None:
        detail["zone"] = wanted.zone
    if wanted.super_users:
        detail["super_users"] = list(wanted.super_users)
    if found is not None:
        kept = {"bootstrap", "security", "default", "zone", "super_users"}
        detail["before"] = found[0].model_dump(mode="json", include=kept)
    expected: Expected = {(Cluster, name): found[1] if found else None}
    report = run_single(environment, "add-cluster", reason, (wanted,), expected, detail)
    return _served(environment, report), True


def remove_cluster(environment: Environment, name: str, reason: str = "removed by hand", force: bool = False) -> int:
    """Remove a cluster that no document names. Returns the revision.

    :param force: even if topics that never moved are written there. Their clients go to another cluster then, which may
        create the topics again: the same offsets then mean other records.
    :raises RefusedError: unknown, still named, or topics are written there.
    """
    found, view = environment.store.read(Cluster, name), environment.store.load()
    if found is None:
        raise no_such_cluster(name, view.clusters)
    patterns = (one for one in environment.store.mirror_patterns() if name in one.route)
    uses = [*references(view, name), *(f"pattern {one.pattern} of mirrors" for one in patterns)]
    if uses:
        raise RefusedError(
            f"Cluster {name} is still referred to by {listed(uses)}. Move them away first; {gone_for_good(name)}."
        )
    written = () if force else dependents_of(environment, name).written
    if written:
        raise unchanged(
            f"{amount(len(written), 'topic', 'is', 'are')} written in {name} and never moved: {listed(written)}. "
            f"Without it their clients go to another cluster, and create them again there, empty. {move_first(name)}. "
            "If they are not needed, give --force."
        )
    detail = {"cluster": name, "bootstrap": found[0].bootstrap}
    report = run_single(environment, "remove-cluster", reason, (), {(Cluster, name): found[1]}, detail)
    return _served(environment, report)


def _served(environment: Environment, report: Report) -> int:
    """The revision; gateways that do not serve it yet are reported."""
    if report.error:
        environment.say(report.error)
    return report.revision


def _wanted(
    environment: Environment,
    name: str,
    bootstrap: str,
    security: str,
    default: bool | None = None,
    zone: str | None = None,
    super_users: Collection[str] | None = None,
) -> tuple[tuple[Cluster, int] | None, Cluster]:
    """The registered cluster, with its version; and the wanted one: unknown and omitted fields stay, and a mask.

    :raises RefusedError: the name or the address is not usable.
    """
    found = environment.store.read(Cluster, name)
    kept = found[0].model_dump(by_alias=True) if found else {}
    given: dict[str, Any] = {
        **({} if default is None else {"default": default}),
        **({} if zone is None else {"zone": zone or None}),
    }
    if super_users is not None:
        given["super_users"] = tuple(dict.fromkeys(filter(None, super_users)))
    if name == NEAREST:
        raise RefusedError(f"No cluster can be called {name}: in bindings that means the one nearest to the gateway.")
    try:
        wanted = Cluster.model_validate({**kept, "name": name, "bootstrap": bootstrap, "security": security, **given})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RefusedError(f"Cluster {name!r}: {where} {first['input']!r} is not usable: {first['msg']}.") from error
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise RefusedError(f"Cluster {name}: {error}") from None
    return found, wanted


def references(view: View, cluster: str) -> tuple[str, ...]:
    """Documents of the state that name `cluster`."""
    bound = [
        f"binding of {user}"
        for user, b in view.bindings.items()
        if cluster in {b.cluster, *b.instances.values(), *b.topics.values(), *b.groups.values(), b.read}
    ]
    mapped = [f"topic {name}" for name, topic in view.topics.items() if cluster in topic.clusters]
    groups = [f"group {name}" for name, group in view.groups.items() if group.cluster == cluster]
    return tuple(sorted([*bound, *mapped, *groups]))


def declare_usage(
    environment: Environment, user: str, topics: tuple[str, ...], groups: tuple[str, ...], instance: str = ""
) -> None:
    """Record that `user` uses `topics` and `groups`.

    :raises RefusedError: a group is a direct one, or the use does not fit.
    """
    view = environment.store.load(left_out=(Mirror,)) if groups else View()
    for name in groups:
        if (pattern := view.direct(name)) is not None:
            raise refused_direct(name, pattern)
    use = Use(instance=instance, how="declared", since=environment.now())
    sightings = [Sighting("topic", name, use) for name in topics] + [Sighting("group", name, use) for name in groups]
    try:
        left_out = environment.store.record_usage(user, sightings)
    except TooManyUsersError as error:
        raise RefusedError(f"The use of {user} was not declared: {error}.") from error
    if left_out:
        raise RefusedError(
            f"{left_out} of the uses of {user} did not fit: the usage of one user is bounded. "
            "Name further topics in the scope of a move itself (topic:NAME)."
        )
