"""Pre-flight: everything that is wrong with a move, found before anything was changed. Each verdict has its way out."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ha_core.model import GatewayRecord, Identity, Lock, MoveRequest, MoveSet, View
from ha_core.plan.closure import Closure
from ha_core.plan.crossing_without_origin import crossing_out
from ha_core.plan.effective import effective, outside_topics
from ha_core.plan.facts import ClusterFacts, Facts
from ha_core.plan.group_verdicts import group_verdicts
from ha_core.plan.known_verdicts import known_verdicts
from ha_core.plan.partition_verdicts import partition_verdicts
from ha_core.plan.resolve import cluster_for_user
from ha_core.plan.scope import lock_keys, named_in
from ha_core.plan.topic_verdicts import stranger_verdicts, topic_verdicts
from ha_core.plan.verdict import Verdict, by_level, listed

__all__ = ["Verdict", "effective", "outside_topics", "preflight"]

_MAX_TYPED = 3
"""Topics that a remedy repeats."""


def preflight(
    view: View,
    request: MoveRequest,
    closure: Closure,
    facts: Facts,
    locks: Collection[Lock],
    gateways: Collection[GatewayRecord],
) -> list[Verdict]:
    """All verdicts, errors first. What the move would carry out is `effective(...)`.

    :param facts: of origin, target and every other cluster that could be asked: the moved topics and groups, and
        `outside_topics(...)`.
    :param locks: all locks that are held.
    """
    found = list(_clusters(view, request, facts))
    if not any(v.level == "error" for v in found):
        found += _identities(view, request, closure)
        found += _locks(view, request, closure.moves, locks)
        found += topic_verdicts(view, request, closure, facts)
        found += partition_verdicts(view, request, facts)
        moves = effective(view, request, closure, facts)
        found += stranger_verdicts(request, closure, moves)
        found += known_verdicts(request, moves, facts)
        found += group_verdicts(view, request, closure, facts)
        found += _gateways(gateways)
        if not any(v.level == "error" for v in found) and _nothing(view, request, closure, facts):
            about = listed(named_in(request.scope)) or "scope"
            text = f"Nothing is to move from {request.origin} to {request.target}."
            remedy = "Check the scope, --from and --to; `switchyard status` helps."
            found.append(Verdict("error", about, text, remedy, code="nothing_to_move"))
    return by_level(found)


def _clusters(view: View, request: MoveRequest, facts: Facts) -> Iterator[Verdict]:
    origin, target = request.origin, request.target
    known = ", ".join(sorted(view.clusters)) or "none"
    for name in dict.fromkeys((origin, target)):
        if name not in view.clusters:
            yield Verdict(
                "error",
                f"cluster {name}",
                f"Cluster {name!r} is not registered (known: {known}).",
                "Correct the name, or register it: `switchyard clusters add`.",
            )
    if origin == target:
        yield Verdict(
            "error",
            f"cluster {origin}",
            f"Origin and target are the same cluster, {origin}.",
            "Name two different clusters with --from and --to.",
        )
        return
    if origin not in view.clusters or target not in view.clusters:
        return
    masked = view.clusters[target].masked
    if masked is not None:
        yield Verdict(
            "error",
            f"cluster {target}",
            f"Target {target} is masked since {masked.since} by {masked.by}: {masked.reason}.",
            f"`switchyard unmask {target}` first, or choose another target.",
        )
    yield from _reach(view, request, facts.clusters.get(origin), origin, of_target=False)
    yield from _reach(view, request, facts.clusters.get(target), target, of_target=True)


def _reach(
    view: View, request: MoveRequest, cluster: ClusterFacts | None, name: str, of_target: bool
) -> Iterator[Verdict]:
    about, bootstrap = f"cluster {name}", view.clusters[name].bootstrap
    why = cluster.error if cluster is not None else "it was not asked"
    side = "Target" if of_target else "Origin"
    if cluster is not None and cluster.refused:
        yield Verdict(
            "error",
            about,
            f"{side} {name} ({bootstrap}) refuses the service account: {_ended(why)}",
            "Correct the security profile of the cluster, or give the account its rights there.",
        )
        return
    reachable = cluster is not None and cluster.reachable
    if not reachable and (of_target or request.mode == "planned"):
        if cluster is not None and cluster.answers:
            yield Verdict(
                "error",
                about,
                f"{side} {name} ({bootstrap}) answers, but cannot be asked what the move needs: {_ended(why)}",
                "Wait until its brokers and leaders are healthy, or repair what is said. It is not lost.",
                "away",
            )
            return
        way = "Repair it or the way to it" + ("." if of_target else f"; if it is lost: {lost_way(request)}.")
        yield Verdict("error", about, f"{side} {name} ({bootstrap}) cannot be reached: {_ended(why)}", way, "away")
        return
    if of_target:
        return
    masked = view.clusters[name].masked
    if request.mode == "planned":
        if masked is not None:
            yield Verdict(
                "warning",
                about,
                f"Origin {name} is masked: what it holds below the cut cannot be read until it is unmasked.",
                f"`switchyard unmask {name}` when it is healthy.",
            )
        if cluster is not None and not cluster.describe_producers:
            yield Verdict(
                "warning",
                about,
                f"Origin {name} does not offer DESCRIBE_PRODUCERS (Kafka 2.8 and newer): a batch that it "
                "took without its answer reaching the producer may be appended again in the target.",
                "Upgrade the origin, or stop the producers for the move.",
            )
        return
    if reachable and masked is None and not request.force:
        yield Verdict(
            "error",
            about,
            f"Origin {name} answers: a forced move would give up what a planned one keeps.",
            f"Use --mode planned. To take it for dead all the same, say --force or `switchyard mask {name}` first.",
        )
        return
    yield Verdict(
        "warning",
        about,
        f"Origin {name} is taken for dead: its log ends, last sequences and committed offsets may be unknown. What "
        "it acknowledged and nobody read stays there until it returns; an unanswered batch may be doubled.",
        "Prefer a planned move when the origin can be repaired soon.",
    )


def lost_way(request: MoveRequest) -> str:
    """How what a planned move was to take out of a cluster is taken out of a lost one."""
    scope, named = request.scope, " ".join(request.scope.topics[:_MAX_TYPED])
    if scope.topics and not (scope.users or scope.instances or scope.user_topics):
        more = " …" if len(scope.topics) > _MAX_TYPED else ""
        return (
            f"`switchyard migrate-from-fault {named}{more} --from {request.origin} --to {request.target} "
            "--unread wait|skip --reason …`"
        )
    return "`switchyard switch` with --mode forced --unread wait|skip"


def _ended(why: str) -> str:
    """As the end of a sentence; what clusters say of themselves often is one."""
    return why if why.endswith((".", "?")) else f"{why}."


def _identities(view: View, request: MoveRequest, closure: Closure) -> Iterator[Verdict]:
    for user in closure.unknown_users:
        yield Verdict(
            "error",
            f"user {user}",
            f"User {user} is not known: it has no binding and no use, seen or declared.",
            "Correct the name, or declare what it uses: `switchyard usage declare`.",
        )
    for user in closure.unseen:
        yield Verdict(
            "warning",
            f"user {user}",
            f"Nothing is known of what {user} uses: only its binding changes.",
            "Declare its topics and groups if it has any: `switchyard usage declare`.",
        )
    scope = request.scope
    for user, instance in (*((user, "") for user in scope.users), *scope.instances):
        bound = cluster_for_user(view, Identity(user, instance))
        about = f"user {user}" + (f"+{instance}" if instance else "")
        if bound == request.target:
            yield Verdict("info", about, f"It is bound to {request.target} already.")
        elif bound not in {None, request.origin}:
            yield Verdict(
                "error",
                about,
                f"It is bound to {bound}, not to {request.origin}.",
                f"Use --from {bound}, or correct the binding.",
            )


def _locks(view: View, request: MoveRequest, moves: MoveSet, locks: Collection[Lock]) -> Iterator[Verdict]:
    wanted = set(lock_keys(request, moves))
    ended_first = {crossing_out(request, view.topics.get(name)) for name in moves.topics}
    for lock in sorted(locks, key=lambda held: held.key):
        if lock.key in wanted and lock.operation not in ended_first:
            yield Verdict(
                "error",
                lock.key.replace(":", " ", 1),
                f"Operation {lock.operation} of {lock.by} works on it since {lock.since}.",
                f"Wait for its end (`switchyard history {lock.operation}`); if its executor is dead, "
                f"`switchyard resume {lock.operation}` or `switchyard undo {lock.operation}`.",
                "busy",
            )


def _gateways(gateways: Collection[GatewayRecord]) -> Iterator[Verdict]:
    if not gateways:
        yield Verdict(
            "warning",
            "gateways",
            "No gateway is alive: clients that go past gateways do not move.",
            "Start the gateways, or go on if there are no clients.",
        )


def _nothing(view: View, request: MoveRequest, closure: Closure, facts: Facts) -> bool:
    moves = effective(view, request, closure, facts)
    if moves.topics or moves.groups or any(crossing_out(request, view.topics.get(t)) for t in closure.moves.topics):
        return False
    scope = request.scope
    bound = [cluster_for_user(view, Identity(u, i)) for u, i in (*((u, "") for u in scope.users), *scope.instances)]
    return all(cluster == request.target for cluster in bound)
