"""A switch of a whole cluster, in parts that can move by themselves, an operation each."""

from collections.abc import Collection
from typing import Any

from ha_core.model import KnownGroup, View
from ha_core.operations.clusters.registered import running_operations
from ha_core.operations.engine.creating import interrupted
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import unchanged
from ha_core.operations.engine.report import BaseProposal, Report
from ha_core.operations.migration.planning import TOPICS_PER_BATCH, MigrationBatch
from ha_core.operations.proposal.proposal import expected_fence, plan
from ha_core.operations.proposal.requests import make_request, written_in
from ha_core.operations.proposal.usage import known_usage
from ha_core.operations.running import engine
from ha_core.plan.facts.similar import did_you_mean
from ha_core.plan.facts.verdict import Verdict, amount, by_level, error, info, warning
from ha_core.plan.move.whole_cluster import parts

MAX_NAMED = 20


class ClusterProposal(BaseProposal):
    """The batches that would move on the state at `revision`."""

    origin: str
    target: str
    reason: str
    mode: str
    batches: tuple[MigrationBatch, ...] = ()
    expected_fence: str = ""

    @property
    def title(self) -> str:
        topics = sum(len(batch.moves.topics) for batch in self.batches)
        groups = sum(len(batch.moves.groups) for batch in self.batches)
        return (
            f"all of {self.origin} → {self.target}, {self.mode}: {amount(topics, 'topic')} and "
            f"{amount(groups, 'group')} in {amount(len(self.batches), 'operation')}, on revision {self.revision}"
        )


def plan_cluster(
    environment: Environment, origin: str, target: str, *, topics_per_batch: int = TOPICS_PER_BATCH, **options: Any
) -> ClusterProposal:
    """The whole cluster's move, judged on the current state. Changes nothing.

    :param topics_per_batch: topics and groups in one operation.
    :param options: further fields of the requests.
    :raises RefusedError: an illegal option, or the cluster cannot be asked for its topics.
    """
    store = environment.store
    view = store.load()
    # A topic has one writer: its other users come along or stall.
    stub = make_request(["topic:-"], origin, target, **options, include_other_users=True)
    common = stub.model_dump(include={"origin", "target", "reason", "mode"})
    if missing := sorted({origin, target} - view.clusters.keys()):
        text = f"{', '.join(map(repr, missing))} is not registered."
        way = f"`switchyard clusters list` shows those that are.{did_you_mean(missing[0], sorted(view.clusters))}"
        return ClusterProposal(
            revision=view.revision, verdicts=(error("unknown-cluster", "clusters", text, way),), **common
        )
    names = written_in(environment, view, origin, asked=stub.mode == "planned")
    verdicts = dict[Verdict, None]()
    batches = list[MigrationBatch]()
    for scope in parts(view, known_usage(environment).counts, stub, names, topics_per_batch):
        proposal = plan(environment, stub.model_copy(update={"scope": scope}))
        if proposal.nothing_to_do:
            continue
        verdicts.update(dict.fromkeys(proposal.verdicts))
        number = len(batches) + 1
        batches.append(
            MigrationBatch(number=number, request=proposal.request, moves=proposal.moves, judged=proposal.judged)
        )
    if not batches:
        text = f"Nothing is to move: {origin} serves no user, and no topic is written there."
        verdicts[error("nothing-to-move", f"cluster {origin}", text, "`switchyard status` shows where things are.")] = (
            None
        )
    verdicts.update(dict.fromkeys(_remains(environment, view, origin, batches)))
    return ClusterProposal(
        revision=view.revision,
        batches=tuple(batches),
        verdicts=tuple(by_level(verdicts)),
        expected_fence=expected_fence(environment),
        **common,
    )


def continue_interrupted(environment: Environment, origin: str, target: str) -> list[Report]:
    """Continue switches from `origin` to `target` whose command has died, to their end.

    :raises RefusedError: another process continues one of them by now.
    """
    engine.recover_one(environment)
    operations = [
        operation
        for operation in reversed(running_operations(environment))
        if (operation.kind, operation.driver) == ("switch", "command")
        and operation.route == (origin, target)
        and interrupted(environment, operation, engine.BEGUN_S)
    ]
    reports = []
    for operation in operations:
        environment.say(f"operation {operation.id} of {operation.by} was interrupted; continuing it")
        reports.append(engine.resume(environment, operation.id))
    return reports


def _remains(environment: Environment, view: View, origin: str, batches: Collection[MigrationBatch]) -> list[Verdict]:
    """Verdicts about things that stay in the cluster."""
    moved = {name for batch in batches for name in batch.moves.groups}
    known = environment.store.known(KnownGroup, origin)
    # Direct groups have no user that gateways know, and a switch gives them their places in copies.
    groups = sorted(
        name for name, group in known.items() if group.offsets and name not in moved and view.direct(name) is None
    )
    found = []
    if groups and batches:
        named = ", ".join(groups[:MAX_NAMED]) + (f" and {len(groups) - MAX_NAMED} more" if groups[MAX_NAMED:] else "")
        found.append(
            warning(
                "groups-of-nobody",
                f"cluster {origin}",
                f"These groups have committed offsets there, and no user of theirs is known: {named}. They stay.",
                "Declare their users (`switchyard usage declare`) if they are to come along.",
            )
        )
    for user, cluster in sorted(view.super_users.items()):
        if cluster == origin:
            text = f"User {user} is a super user of {origin}: it is left out."
            found.append(info("super-user", f"user {user}", text, "Give clients that are to move a user of their own."))
    if view.clusters[origin].default:
        found.append(
            warning(
                "default-stays",
                f"cluster {origin}",
                f"{origin} is the default cluster: users that were never seen or bound go there.",
                "Make another cluster the default when this one is left: `switchyard clusters add NAME --default`.",
            )
        )
    return found


def require_whole(scope: Collection[str], origin: str) -> bool:
    """Whether the scope is the whole cluster `origin`.

    :raises RefusedError: it names a cluster and something else, or another cluster.
    """
    named = [entry for entry in scope if entry.strip().startswith("cluster:")]
    if not named:
        return False
    if len(scope) > 1 or named[0].strip() != f"cluster:{origin}":
        raise unchanged(
            f"The scope {', '.join(scope)} is not usable: cluster:NAME stands alone, and names the cluster of --from "
            f"({origin})."
        )
    return True
