"""Pre-flight of the clusters of a move: their limits on clients, and the recorded facts of one that does not answer."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ha_core.model import MoveRequest
from ha_core.model.scope import format_topic
from ha_core.plan.facts.similar import did_you_mean
from ha_core.plan.facts.verdict import Verdicts, amount, duration, error, info, listed, warning
from ha_core.plan.preflight.case import PreflightCase

OLD_S = 3600.0
"""Recorded facts older than this give a warning."""
_MAX_TYPED = 3
"""Topics that a remedy repeats."""


def registered(case: PreflightCase) -> Verdicts:
    known = ", ".join(sorted(case.view.clusters)) or "none"
    for name in dict.fromkeys((case.request.origin, case.request.target)):
        if name not in case.view.clusters:
            yield error(
                "unknown-cluster",
                f"cluster {name}",
                f"Cluster {name!r} is not registered (known: {known}).",
                "Correct the name, or register it: `switchyard clusters add`."
                + did_you_mean(name, sorted(case.view.clusters)),
            )


def two_clusters(case: PreflightCase) -> Verdicts:
    origin = case.request.origin
    if origin == case.request.target:
        yield error(
            "same-cluster",
            f"cluster {origin}",
            f"Origin and target are the same cluster, {origin}.",
            "Name two different clusters with --from and --to.",
        )


def target(case: PreflightCase) -> Verdicts:
    name = case.request.target
    if (masked := case.view.clusters[name].masked) is not None:
        yield error(
            "masked-target",
            f"cluster {name}",
            f"Target {name} is masked since {masked.since} by {masked.by}: {masked.reason}.",
            f"`switchyard unmask {name}` first, or choose another target.",
        )
    yield from _reach(case, name, "Target", "Repair it or the way to it.")


def planned_origin(case: PreflightCase) -> Verdicts:
    name, request = case.request.origin, case.request
    if request.mode != "planned":
        return
    failed = list(_reach(case, name, "Origin", f"Repair it or the way to it; if it is lost: {lost_way(request)}."))
    if failed:
        yield from failed
        return
    if case.view.clusters[name].masked is not None:
        yield warning(
            "masked-origin",
            f"cluster {name}",
            f"Origin {name} is masked: its records below the cut cannot be read until it is unmasked.",
            f"`switchyard unmask {name}` when it is healthy.",
        )
    if not case.facts.clusters[name].describe_producers:
        yield warning(
            "no-describe-producers",
            f"cluster {name}",
            f"Origin {name} does not offer DESCRIBE_PRODUCERS (Kafka 2.8 and newer): a batch that it "
            "took without its answer reaching the producer may be appended again in the target.",
            "Upgrade the origin, or stop the producers for the move.",
        )


def forced_origin(case: PreflightCase) -> Verdicts:
    name, request = case.request.origin, case.request
    if request.mode == "planned":
        return
    about, cluster = f"cluster {name}", case.facts.clusters.get(name)
    if cluster is not None and cluster.refused:
        yield from _reach(case, name, "Origin", "")
        return
    if case.answers(name) and case.view.clusters[name].masked is None and not request.force:
        if (leads := list(case.with_leader)) or case.whole:
            which = f", and leads {listed(leads)}" if leads else ""
            yield error(
                "origin-answers",
                about,
                f"Origin {name} answers{which}: a forced move would give up what a planned one keeps.",
                "Use --mode planned. If a topic has lost only some partitions, name these alone. To take "
                f"{name} for dead all the same, `switchyard mask {name}` first; for topics alone `switchyard "
                "migrate-from-fault` takes --force.",
            )
            return
        yield warning(
            "origin-taken-for-dead",
            about,
            f"Origin {name} answers, and is taken for dead only for the named partitions, which no live broker can "
            "lead without data loss. Acknowledged records that were not read stay there until their brokers return; a "
            "batch without an answer may be written twice.",
            "If these brokers can be back soon, wait for them instead.",
        )
        return
    yield warning(
        "origin-taken-for-dead",
        about,
        f"Origin {name} is taken for dead: its log ends, last sequences and committed offsets may be unknown. Unread "
        "acknowledged records stay there until it returns; an unanswered batch may be doubled. Transactions that are "
        f"open there are aborted. A transaction's commit that only {name} knows waits for it.",
        f"Prefer a planned move when the origin can be repaired soon. `switchyard mask {name}` ends the wait for "
        "commits: their producers start again.",
    )


def _reach(case: PreflightCase, name: str, side: str, way: str) -> Verdicts:
    """:param way: the way out if no part of it answers."""
    cluster, about = case.facts.clusters.get(name), f"cluster {name}"
    where = f"{side} {name} ({case.view.clusters[name].bootstrap})"
    why = cluster.error if cluster is not None else "it was not asked"
    why = why if why.endswith((".", "?")) else f"{why}."
    if cluster is not None and cluster.refused:
        yield error(
            "refused-account",
            about,
            f"{where} refuses the service account: {why}",
            "Correct the security profile of the cluster, or give the account its rights there.",
        )
    elif cluster is not None and cluster.answers and not cluster.reachable:
        yield error(
            "unhealthy-cluster",
            about,
            f"{where} answers, but does not give the facts that the move needs: {why}",
            "Wait until its brokers and leaders are healthy, or repair the cause. It is not lost.",
            "away",
        )
    elif cluster is None or not cluster.reachable:
        yield error("unreachable-cluster", about, f"{where} cannot be reached: {why}", way, "away")


def lost_way(request: MoveRequest) -> str:
    """The command that does a planned move's work if its origin is lost."""
    scope = request.scope
    named = " ".join(format_topic(name, scope.partitions.get(name)) for name in scope.topics[:_MAX_TYPED])
    if scope.topics and not (scope.users or scope.instances or scope.user_topics):
        more = " …" if len(scope.topics) > _MAX_TYPED else ""
        return (
            f"`switchyard migrate-from-fault {named}{more} --from {request.origin} --to {request.target} "
            "--unread wait|skip --reason …`"
        )
    return "`switchyard switch` with --mode forced --unread wait|skip"


def last_seen(case: PreflightCase) -> Verdicts:
    """Recorded facts of a dead origin, and their age."""
    request, facts, moves = case.request, case.facts, case.moves
    if request.mode == "planned" or case.answers(request.origin) or request.origin not in facts.clusters:
        return
    about = f"cluster {request.origin}"
    topics = {name: facts.topic(request.origin, name) for name in moves.topics}
    ages = [seen.age_s for seen in topics.values() if seen is not None and seen.age_s is not None]
    unknown = [name for name, seen in topics.items() if seen is None]
    if ages:
        old = max(ages) >= OLD_S
        yield (warning if old else info)(
            "last-seen",
            about,
            f"Facts of {amount(len(ages), 'topic')} were last recorded {duration(max(ages))} ago: partitions, settings "
            "and log ends. The cut is above all that they can have grown by since.",
            "Run the DAG record_facts more often." if old else "",
        )
    if unknown:
        yield warning(
            "never-seen",
            about,
            f"No facts are recorded of {listed(f'topic {name}' for name in unknown)}: the cut is 2^40 offsets higher, "
            "and the number of records missing when the cluster returns will be unknown.",
            "Run the DAG record_facts, or `switchyard facts record`, while clusters are healthy.",
        )
    groups = [seen.age_s for g in moves.groups if (seen := facts.group(request.origin, g)) and seen.age_s is not None]
    if groups:
        yield info(
            "group-last-seen",
            about,
            f"The offsets of {amount(len(groups), 'group')} are those of {duration(max(groups))} ago: records "
            "that were read since come again.",
        )


def limits(case: PreflightCase) -> Verdicts:
    """Limits on clients that are narrower in the target than in the origin."""
    origin, target = (case.facts.clusters.get(name) for name in (case.request.origin, case.request.target))
    if origin is None or target is None:
        return
    for one in narrower(origin.limits, target.limits):
        yield warning(
            "narrower-limit",
            f"setting {one.key}",
            f"Brokers of {target.name} have {one.key}={one.there}, those of {origin.name} {one.here}: {one.otherwise}.",
            f"Set {one.key}={one.here} on the brokers of {target.name} first, unless no client needs it.",
        )


def gateways(case: PreflightCase) -> Verdicts:
    if not case.gateways:
        yield warning(
            "no-gateway",
            "gateways",
            "No gateway is alive: clients that bypass gateways do not move.",
            "Start the gateways, or continue if there are no clients.",
        )


class BrokerLimit(NamedTuple):
    """:ivar upper: whether a lower value allows less.
    :ivar otherwise: effect on clients that need more than the target allows.
    """

    upper: bool
    otherwise: str


class Narrower(NamedTuple):
    """A limit that allows less in the target."""

    key: str
    here: int
    there: int

    @property
    def otherwise(self) -> str:
        return LIMITS[self.key].otherwise


LIMITS: Mapping[str, BrokerLimit] = {
    "group.max.session.timeout.ms": BrokerLimit(
        True, "members that ask for a longer session.timeout.ms cannot join (INVALID_SESSION_TIMEOUT), and fail"
    ),
    "group.min.session.timeout.ms": BrokerLimit(
        False, "members that ask for a shorter session.timeout.ms cannot join (INVALID_SESSION_TIMEOUT), and fail"
    ),
    "group.max.size": BrokerLimit(True, "larger groups lose members (GROUP_MAX_SIZE_REACHED)"),
    "offset.metadata.max.bytes": BrokerLimit(
        True, "commits with longer metadata are refused, those that a move carries over as well"
    ),
    "offsets.retention.minutes": BrokerLimit(
        True, "groups without members lose their commits earlier, and begin at auto.offset.reset"
    ),
    "producer.id.expiration.ms": BrokerLimit(
        True, "later retries are not recognised as duplicates, and stale copiers of mirrors are refused for less long"
    ),
    "socket.request.max.bytes": BrokerLimit(True, "larger requests end their connection"),
    "transaction.max.timeout.ms": BrokerLimit(
        True, "producers with a longer transaction.timeout.ms cannot start (INVALID_TRANSACTION_TIMEOUT), and fail"
    ),
}
"""Broker limits on clients that have no topic-level setting, so that two clusters may differ in them.

A client that keeps within those of the origin may exceed those of the target. It fails after the cut, with an error
that client libraries treat as fatal. The limits that clients need are unknown, so each narrower one gives a warning.
"""


def narrower(here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[Narrower]:
    """Limits of the target that allow less than the origin's; unknown ones are left out."""
    for key, limit in LIMITS.items():
        ours, theirs = _number(here.get(key)), _number(there.get(key))
        if ours is not None and theirs is not None and (theirs < ours if limit.upper else theirs > ours):
            yield Narrower(key, ours, theirs)


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdecimal() else None
