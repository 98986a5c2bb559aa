"""Pre-flight of the identities that a move names, and of locks of other operations."""

from ha_core.model import Identity, Lock, Scope
from ha_core.plan.facts.similar import did_you_mean
from ha_core.plan.facts.verdict import Verdicts, error, info, listed, warning
from ha_core.plan.move.closure import lock_keys
from ha_core.plan.preflight.case import PreflightCase
from ha_core.plan.routing.resolve import cluster_for_user


def users(case: PreflightCase) -> Verdicts:
    for user in case.closure.unseen:
        if user in case.dormant:
            continue
        about, bound = f"user {user}", case.view.bindings.get(user)
        if bound is None or bound.empty:
            text = f"User {user} is not known: it has no binding and no use, seen or declared."
            way = "Correct the name, or declare what it uses: `switchyard usage declare`."
            known = sorted({*case.usage, *case.dormant, *case.view.bindings, *case.view.super_users})
            yield error("unknown-user", about, text, way + did_you_mean(user, known))
        else:
            text = f"No usage of {user} is known: only its binding changes."
            way = "Declare its topics and groups if it has any: `switchyard usage declare`."
            yield warning("unseen-user", about, text, way)


def super_users(case: PreflightCase) -> Verdicts:
    """A cluster's super users: bound elsewhere, they would not reach their cluster through the gateways any more."""
    for user, cluster in sorted(case.view.super_users.items()):
        if user in case.request.scope.named_users:
            yield error(
                "super-user",
                f"user {user}",
                f"User {user} is a super user of cluster {cluster}: routed elsewhere, it would not reach {cluster} any "
                "more, and it may use everything, so everything would move with it.",
                "Leave it out, and give clients that are to move another user. If it is none: `switchyard "
                f"clusters add {cluster} --super-user NAME` sets the right ones.",
            )


def bindings(case: PreflightCase) -> Verdicts:
    request = case.request
    if strays := _strays(case):
        who = listed(Scope(users=request.scope.users, instances=request.scope.instances).entries)
        back = f"--from {request.origin} --to {request.target}"
        yield error(
            "bound-already",
            who,
            f"Bound to {request.target} already: only {listed(strays)} would move there.",
            f"To move it away: --from {request.target} --to {request.origin}. To bring these after it, name them: "
            f"`switchyard switch {listed(strays)} {back}`.",
        )
        return
    for user, instance in _identities(request.scope):
        bound = cluster_for_user(case.view, Identity(user, instance))
        about = f"user {user}" + (f"+{instance}" if instance else "")
        if bound == request.target:
            yield info("bound-already", about, f"It is bound to {request.target} already.")
        elif bound not in {None, request.origin}:
            yield error(
                "bound-elsewhere",
                about,
                f"It is bound to {bound}, not to {request.origin}.",
                f"Use --from {bound}, or correct the binding.",
            )


def local_names(case: PreflightCase) -> Verdicts:
    """Users whose names of topics depend on their cluster: a move carries running clients, whose positions in topics
    that do not move would become offsets of other logs."""
    for user in sorted(case.request.scope.named_users):
        bound = case.view.bindings.get(user)
        if bound is not None and bound.local_names is not None:
            yield error(
                "local-names",
                f"user {user}",
                f"{user} sees remote topics of {bound.local_names} under local names: bound to another cluster, its "
                "running clients would read other logs at the offsets of these.",
                f"`switchyard bindings delete user:{user} --local-names`, with its consumers stopped; or stop them and "
                "change its binding alone (`switchyard bindings set`).",
            )


def _strays(case: PreflightCase) -> tuple[str, ...]:
    """Topics that a planned switch would bring to the cluster where all its users are already: it may be the wrong way
    round, so they have to be named."""
    scope, request = case.request.scope, case.request
    named = _identities(scope)
    if request.mode != "planned" or request.COPIES or not named or set(scope.entries) - set(_entries(named)):
        return ()
    bound = {cluster_for_user(case.view, Identity(*who)) for who in named}
    return tuple(f"topic:{name}" for name in case.moves.topics) if bound == {request.target} else ()


def _entries(identities: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    users = tuple(user for user, instance in identities if not instance)
    return Scope(users=users, instances=tuple(one for one in identities if one[1])).entries


def dormant(case: PreflightCase) -> Verdicts:
    """Uses that are too old to count: those of the scope take nothing along, those of others do not refuse the move."""
    named = {*case.request.scope.users, *(user for user, _ in case.request.scope.instances)}
    judged = {*case.closure.moves.topics}
    for user, used in sorted(case.dormant.items()):
        own = user in named
        topics = sorted(name for name in used.topics if own is (name not in judged))
        groups = sorted(used.groups.keys() - set(case.closure.moves.groups)) if own else []
        if not topics and not groups:
            continue
        things = [*(f"topic {name}" for name in topics), *(f"group {name}" for name in groups)]
        uses = [use for name in topics for use in used.topics[name]] + [u for name in groups for u in used.groups[name]]
        last = max(use.last or use.since for use in uses)
        stays = "They do not move." if own else "That does not refuse the move."
        yield warning(
            "dormant-use",
            f"user {user}",
            f"User {user} used {listed(things)}, last at {last}, too long ago to count. {stays}",
            f"Declare what is used again (`switchyard usage declare {user}`), and withdraw the rest (`switchyard usage "
            f"forget {user}`).",
            number=len(things),
            unit="uses",
        )


def locks(case: PreflightCase) -> Verdicts:
    moves = case.closure.moves
    wanted = set(lock_keys(case.request, moves))
    ended_first = {case.crossing_out(name) for name in moves.topics}
    held: dict[str, list[Lock]] = {}
    for lock in sorted(case.locks, key=lambda one: one.key):
        if lock.key not in wanted or lock.operation in ended_first:
            continue
        if lock.readable:
            held.setdefault(lock.operation, []).append(lock)
        else:
            what = lock.key.replace(":", " ", 1)
            text = "An operation works on it whose lock this version cannot read."
            yield error("locked", what, text, lock.way_out_if_unreadable, "busy")
    for operation, its in held.items():  # a row per operation, not per topic, group and user
        yield error(
            "locked",
            f"operation {operation}",
            f"It works on {listed(lock.key.replace(':', ' ', 1) for lock in its)}, for {its[0].by}, since "
            f"{its[0].since}.",
            f"Wait for its end (`switchyard history {operation}`); if its executor is dead, `switchyard resume "
            f"{operation}` or `switchyard undo {operation}`.",
            "busy",
        )


def nothing_to_move(case: PreflightCase) -> Verdicts:
    """Everything is in the target already."""
    request, moves = case.request, case.moves
    if moves.topics or moves.groups or any(map(case.crossing_out, case.closure.moves.topics)):
        return
    bound = {cluster_for_user(case.view, Identity(*who)) for who in _identities(request.scope)}
    if bound <= {request.target}:
        yield error(
            "nothing-to-move",
            listed(request.scope.entries) or "scope",
            f"Nothing is to move from {request.origin} to {request.target}.",
            "Check the scope, --from and --to; `switchyard status` helps.",
        )


def _identities(scope: Scope) -> tuple[tuple[str, str], ...]:
    return (*((user, "") for user in scope.users), *scope.instances)
