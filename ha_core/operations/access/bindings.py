"""Changing bindings by declaration: difference, one revision, and the wait until every gateway serves it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ha_core.model import Document, Scope, Usage, UserBindings, View
from ha_core.model.identity import MAX_FORMS, NAMED_FORMS, NEAREST, FormError, read_forms
from ha_core.operations.access.bindings_file import BindingDifference, Declared, compare, display_levels, levels
from ha_core.operations.access.local_names import check_local_names, warnings_of_local_names
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, refused_direct
from ha_core.operations.engine.report import Report
from ha_core.operations.engine.single import Expected, run_single
from ha_core.operations.proposal.requests import parse_scope
from ha_core.plan.facts.verdict import amount

MAX_CHANGES = 5_000
"""Users per revision: the notes and documents of one revision have to fit into one ZooKeeper request."""
_UNSAID = "bindings as declared"


@dataclass(frozen=True, slots=True)
class BindingsPlan:
    """The differences, and warnings for the operator."""

    revision: int
    differences: tuple[BindingDifference, ...]
    expected: Expected
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "differences": [
                {"user": d.user, "before": display_levels(d.before), "after": display_levels(d.after)}
                for d in self.differences
            ],
            "warnings": list(self.warnings),
        }


def plan_bindings(environment: Environment, declared: Declared) -> BindingsPlan:
    """The difference between `declared` and the store.

    :raises RefusedError: a cluster that is not registered or is masked, a super user that would be moved away from its
        cluster, an invalid form of client ids or one that leaves a binding without clients, local names of an unknown
        source, or too many users for one revision.
    """
    view = environment.store.load()
    differences = compare(declared, view.bindings)
    if len(differences) > MAX_CHANGES:
        raise RefusedError(
            f"{len(differences)} users differ; one revision takes {MAX_CHANGES}. Apply the declaration in parts."
        )
    for difference in differences:
        _check_clusters(difference, view)
        _check_super_user(difference, view)
        _check_client_ids(difference.after)
        _check_groups(difference, view)
        check_local_names(difference, view)
    expected: dict[tuple[type[Document], str], int | None] = {}
    for difference in differences:
        found = environment.store.read(UserBindings, difference.user)
        if (found[0] if found else None) != difference.before:
            raise RefusedError(f"The bindings of {difference.user} are changing right now. Run it again.")
        expected[UserBindings, difference.user] = found[1] if found else None
    usage = environment.store.usage() if differences else {}
    named = (text for each in differences for text in warnings_of_local_names(environment, each, view))
    return BindingsPlan(view.revision, differences, expected, (*_warnings(differences, usage), *named))


def apply_bindings(environment: Environment, plan: BindingsPlan, reason: str = _UNSAID) -> Report:
    """Commit `plan` in one revision and wait until every gateway serves it."""
    return run_single(
        environment,
        "bindings",
        reason or _UNSAID,
        tuple(d.after for d in plan.differences if d.after is not None),
        plan.expected,
        {"differences": [line for d in plan.differences for line in d.lines()][:100]},
    )


def with_level(view: View, who: str, cluster: str | None) -> Declared:
    """The stored bindings of the user in `who`, with the level of `who` set to `cluster`; None: without that level.

    :raises RefusedError: there is no such binding.
    """
    user, field, key = _level(parse_scope([who]), who)
    before = view.bindings.get(user) or UserBindings(user=user)
    was = before.cluster if field == "cluster" else getattr(before, field).get(key)
    if cluster is None and was is None:
        raise RefusedError(f"There is no binding {who}. `switchyard bindings list {user}` shows its bindings.")
    after: object = cluster
    if field != "cluster":
        after = {name: bound for name, bound in {**getattr(before, field), key: cluster}.items() if bound is not None}
    return Declared({user: before.model_copy(update={field: after})}, complete=False)


def with_read(view: View, who: str, read: str | None) -> Declared:
    """The stored bindings of the user `who`, with the cluster in which it reads mirrored topics; None: the writer's.

    :raises RefusedError: `who` is not a whole user, or there is nothing to remove.
    """
    user, field, _ = _level(parse_scope([who]), who)
    if field != "cluster":
        raise RefusedError(
            f"{who} is a part of a user, and the cluster for reads of mirrored topics applies to the whole user."
        )
    before = view.bindings.get(user) or UserBindings(user=user)
    if read is None and before.read is None:
        raise RefusedError(
            f"{user} reads where topics are written. `switchyard bindings list {user}` shows its bindings."
        )
    return Declared({user: before.model_copy(update={"read": read})}, complete=False)


def with_local_names(view: View, who: str, alias: str | None, cluster: str | None = None) -> Declared:
    """The stored bindings of the user `who`, with the local names of the remote topics of this source; None: without.

    :param cluster: the cluster to which the user is bound in the same revision; None: its bindings stay.
    :raises RefusedError: `who` is not a whole user, or there is nothing to remove.
    """
    user, field, _ = _level(parse_scope([who]), who)
    if field != "cluster":
        raise RefusedError(
            f"{who} is a part of a user, and local names of remote topics apply to the whole user: to those of its "
            "clients that are bound to a flow's target."
        )
    before = view.bindings.get(user) or UserBindings(user=user)
    if alias is None and before.local_names is None:
        raise RefusedError(
            f"{user} sees remote topics by their own names. `switchyard bindings list {user}` shows its bindings."
        )
    bound = before.cluster if cluster is None else cluster
    return Declared({user: before.model_copy(update={"local_names": alias, "cluster": bound})}, complete=False)


def with_client_ids(view: View, who: str, forms: tuple[str, ...]) -> Declared:
    """The stored bindings of the user `who`, with these forms of client ids; empty: without forms.

    :raises RefusedError: `who` is not a whole user, or there are no forms to remove.
    """
    user, field, _ = _level(parse_scope([who]), who)
    if field != "cluster":
        raise RefusedError(f"{who} is a part of a user, and forms of client ids apply to the whole user.")
    before = view.bindings.get(user) or UserBindings(user=user)
    if not forms and not before.client_ids:
        raise RefusedError(
            f"No forms are set for client ids of {user}. `switchyard bindings list {user}` shows its bindings."
        )
    return Declared({user: before.model_copy(update={"client_ids": tuple(dict.fromkeys(forms))})}, complete=False)


def _level(scope: Scope, who: str) -> tuple[str, str, str]:
    """User, field and key of the level."""
    if scope.users:
        return scope.users[0], "cluster", ""
    for field, pairs in (("instances", scope.instances), ("topics", scope.user_topics), ("groups", scope.user_groups)):
        for user, key in pairs:
            return user, field, key
    raise RefusedError(f"{who} names a topic, and only users have bindings. Write user:NAME, or user:NAME#TOPIC.")


def _check_clusters(difference: BindingDifference, view: View) -> None:
    before = levels(difference.before)
    for who, cluster in levels(difference.after).items():
        reads = who == f"{difference.user} reads"
        if before.get(who) == cluster or (reads and cluster == NEAREST):
            continue
        known = view.clusters.get(cluster)
        what = (
            f"{who} from cluster {cluster!r}, which is"
            if reads
            else f"{who} is to be bound to cluster {cluster!r}, which is"
        )
        if known is None:
            names = ", ".join([*sorted(view.clusters), *([NEAREST] if reads else [])]) or "none"
            raise RefusedError(f"{what} not registered (known: {names}). Register it, or correct the name.")
        if (mask := known.masked) is not None:
            raise RefusedError(f"{what} masked since {mask.since}: {mask.reason}. Unmask it first.")


def _check_super_user(difference: BindingDifference, view: View) -> None:
    """As a switch refuses it: bound to another cluster, a super user would not reach its own through gateways."""
    user = difference.user
    homes = view.super_user_of(user)
    if not homes:
        return
    of = f"{user} is a super user of {' and '.join(sorted(homes))}"
    before, after = levels(difference.before), levels(difference.after)
    for who, cluster in after.items():
        if cluster not in homes and before.get(who) != cluster:
            raise RefusedError(
                f"{who} would be bound to {cluster}, but {of}, which it would not reach through gateways any more. "
                f"Give clients that are to move a user of their own. If it is no super user: `switchyard clusters add "
                f"{min(homes)} --super-user NAME` names the super users."
            )
    default = view.default_cluster
    if user in before and user not in after and default is not None and default not in homes:
        raise RefusedError(
            f"Without its binding {user} would go to the default cluster, {default}, but {of}. Keep the binding."
        )


def _check_groups(difference: BindingDifference, view: View) -> None:
    before, after = (set() if one is None else set(one.groups) for one in (difference.before, difference.after))
    for name in sorted(after - before):
        if (pattern := view.direct(name)) is not None:
            raise refused_direct(name, pattern)


def _check_client_ids(after: UserBindings | None) -> None:
    """A binding of an instance that the forms would strip matches no client any more, so it is refused."""
    if after is None:
        return
    if len(after.client_ids) > MAX_FORMS:
        raise RefusedError(f"{after.user} would have {len(after.client_ids)} forms of client ids, above {MAX_FORMS}.")
    for form in after.client_ids:
        try:
            read_forms(form)
        except FormError as error:
            names = ", ".join(NAMED_FORMS)
            raise RefusedError(f"{error}. Use {names}, or a form such as '{{instance}}-{{number}}'.") from error
    for name, cluster in after.instances.items():
        if (instance := after.instance(name)) != name:
            raise RefusedError(
                f"{after.user}+{name}, which is bound to {cluster}, would match no client: by the forms of client ids "
                f"{name} belongs to the instance {instance}. Bind {after.user}+{instance} there instead."
            )


def _bound(bindings: UserBindings | None) -> dict[str, str]:
    return display_levels(None if bindings is None else bindings.changed(read=None, local_names=None))


def _warnings(differences: tuple[BindingDifference, ...], usage: Mapping[str, Usage]) -> tuple[str, ...]:
    # The cluster for reads moves nothing: the reader sees the same records at the same offsets.
    bound = (
        difference.user
        for difference in differences
        if set(_bound(difference.before).items()) ^ set(_bound(difference.after).items())
    )
    used = map(usage.get, bound)
    return tuple(
        f"{one.user} is in use ({amount(len(one.topics), 'topic')}, {amount(len(one.groups), 'group')}): a "
        "binding alone moves neither "
        "records nor committed offsets. Use `switchyard switch` to move live clients."
        for one in used
        if one is not None and (one.topics or one.groups)
    )
