"""Bindings by which a user's clients see a flow's remote topics under the names of their sources: what such a change
would hide, and which clients it would lead to other offsets."""

from collections.abc import Iterator, Mapping

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import UserBindings, View
from ha_core.operations.access.bindings_file import BindingDifference
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.verdict import amount, listed

LOOK_S = 10.0


def check_local_names(difference: BindingDifference, view: View) -> None:
    """:raises RefusedError: no flow that has claimed topics has a source of this alias."""
    alias = None if difference.after is None else difference.after.local_names
    known = {document.source for document in view.remote_topics.values()}
    if alias is None or alias in known or (difference.before is not None and difference.before.local_names == alias):
        return
    raise RefusedError(
        f"{difference.user} would see remote topics of {alias!r} under local names, but no flow from {alias!r} has "
        f"claimed topics (sources of known flows: {', '.join(sorted(known)) or 'none'}). Give the alias of the source "
        "in the flows' file; their workers need --zookeeper. `switchyard flows topics` lists claims."
    )


def warnings_of_local_names(environment: Environment, difference: BindingDifference, view: View) -> Iterator[str]:
    """Warnings about a change of local names, or of the cluster in which a user with local names is."""
    if _meaning(difference.before) == _meaning(difference.after):
        return
    after = difference.after
    if after is not None and after.local_names is not None:
        yield from _names_shown(environment, after, after.local_names, view)
    yield from _connected(environment, difference.user)


def _meaning(bindings: UserBindings | None) -> object:
    """All that decides which topic a name means to the user's clients."""
    if bindings is None or bindings.local_names is None:
        return None
    return bindings.local_names, bindings.cluster, bindings.instances, bindings.topics


def _names_shown(environment: Environment, after: UserBindings, alias: str, view: View) -> Iterator[str]:
    remote: dict[str, dict[str, str]] = {}
    for document in view.remote_topics.values():
        if document.source == alias:
            its = {source: name for name, source in document.topics.items() if source not in ("", name)}
            remote.setdefault(document.target_id, {}).update(its)
    bound = {after.cluster or view.default_cluster, *after.instances.values()} - {None}
    effect = False
    for name in sorted(filter(None, bound)):
        cluster = view.clusters.get(name)
        if cluster is None:
            continue
        try:
            admin = environment.admin(cluster)
            cluster_id, topics = admin.probe(timeout_s=LOOK_S).cluster_id, admin.list_topics(timeout_s=LOOK_S)
        except KafkaAdminError as error:
            effect = True
            yield f"{name} is not looked at, so topics of its own that would be hidden are not known: {error}"
            continue
        shown = remote.get(cluster_id, {})
        effect = effect or bool(shown)
        kept = sorted(source for source in shown if view.mapped(source) is not None or source in after.topics)
        hidden = sorted(source for source in shown.keys() & topics.keys() if source not in kept)
        if hidden:
            yield (
                f"{name} has topics of its own named {listed(hidden)}: {after.user} would not see them any more, but "
                f"{listed([shown[source] for source in hidden])} under these names."
            )
        if kept:
            yield f"{listed(kept)} keep their names for {after.user}: they have a map, or a binding of their own."
    if not effect:
        where = listed(sorted(filter(None, bound))) or "no cluster"
        yield (
            f"No flow from {alias} writes in {where}, where clients of {after.user} are: local names have no effect "
            "until they are bound to a flow's target."
        )


def _connected(environment: Environment, user: str) -> Iterator[str]:
    """Clients that are running now. A consumer keeps its position over the change, and the position is an offset of the
    other log."""
    if not environment.store.gateways():
        return
    # It imports an HTTP client, which no other change of bindings needs.
    from ha_core.operations.engine.gateway_queries import ask_gateways

    replies = ask_gateways(environment, "/connections", {"user": user, "limit": "1"}, timeout_s=LOOK_S)
    totals = {reply.gateway: int(reply.answer["total"]) for reply in replies if reply.answer is not None}
    if running := {gateway: total for gateway, total in totals.items() if total}:
        count = sum(running.values())
        yield (
            f"{user} has {amount(count, 'connection')} ({listed(sorted(running))}): its names of topics would mean "
            "other logs. Stop its consumers first: one that goes on keeps its position of the other log, and skips or "
            "repeats records."
        )
    silent: Mapping[str, str] = {reply.gateway: reply.error for reply in replies if reply.answer is None}
    if silent:
        why = "; ".join(f"{gateway}: {error}" for gateway, error in sorted(silent.items()))
        yield f"Whether clients of {user} are connected is not known everywhere ({why}). Make sure that none reads."
