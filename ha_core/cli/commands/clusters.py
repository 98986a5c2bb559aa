"""`clusters`, `mask`, `unmask`: clusters that exist or are out of service."""

from typing import Annotated

from ha_core.cli.command import Cluster, CommandResult, CommandRun, DryRun, Reason, code_of, command, option
from ha_core.operations.clusters import registered
from ha_core.operations.clusters.masking import MaskOutcome, dependents_of, mask_cluster, unmask_cluster
from ha_core.present.moves import single_page
from ha_core.present.state import clusters_page, depends_lines


@command("clusters list", "List clusters, and whether they answer.")
def list_clusters(session: CommandRun) -> CommandResult:
    states = registered.cluster_states(session.environment)
    return CommandResult({"clusters": states}, clusters_page(states))


@command("clusters add", "Register a cluster, or change its address or security profile.")
def add(
    session: CommandRun,
    name: Cluster,
    bootstrap: Annotated[str, option("host:port[,host:port…]")],
    security: Annotated[str, option("Name of a security profile.")] = "none",
    default: Annotated[bool | None, option("Serve identities without a binding.", "--default/--no-default")] = None,
    zone: Annotated[
        str | None, option("Its zone, as gateways there are configured; empty: none. Default: unchanged.")
    ] = None,
    super_user: Annotated[
        list[str] | None,
        option("User that may do anything there, and never moves; repeatable; empty: none.", metavar="NAME"),
    ] = None,
    unprobed: Annotated[bool, option("Do not probe it: it is not running yet, for example.", "--unprobed")] = False,
    reason: Reason = "registered by hand",
) -> CommandResult:
    session.found_state()
    if not unprobed:
        session.out.progress(f"{name}: {registered.require_alive(session.environment, name, bootstrap, security)}")
    revision, changed = registered.add_cluster(
        session.environment, name, bootstrap, security, default, reason, zone, super_user
    )
    text = f"Cluster {name} is registered (revision {revision})." if changed else f"Cluster {name} is unchanged."
    return CommandResult({"cluster": name, "revision": revision, "changed": changed}, [text])


@command("clusters remove", "Forget a cluster that nothing refers to any more.")
def remove(
    session: CommandRun,
    name: Cluster,
    force: Annotated[bool, option("Even if it holds topics that never moved.", "--force")] = False,
    reason: Reason = "removed by hand",
) -> CommandResult:
    revision = registered.remove_cluster(session.environment, name, reason, force)
    return CommandResult({"cluster": name, "revision": revision}, [f"Cluster {name} is removed (revision {revision})."])


@command("mask", "Take a cluster out of service: requests for it fail at once, and nothing moves to it.")
def mask(
    session: CommandRun,
    cluster: Cluster,
    reason: Reason,
    force: Annotated[bool, option("Even if topics are written there; they become unavailable.", "--force")] = False,
    dry_run: DryRun = False,
) -> CommandResult:
    if dry_run:
        depends = dependents_of(session.environment, cluster)
        return CommandResult({"cluster": cluster, "depends": depends}, depends_lines(cluster, depends))
    return _changed(cluster, mask_cluster(session.environment, cluster, reason, force))


@command("unmask", "Put a cluster back into service, after a health probe.")
def unmask(session: CommandRun, cluster: Cluster, reason: Reason = "back in service") -> CommandResult:
    return _changed(cluster, unmask_cluster(session.environment, cluster, reason))


def _changed(cluster: str, outcome: MaskOutcome) -> CommandResult:
    report, text = outcome.report, outcome.words
    if report is None:
        return CommandResult({"operation": None, "result": "succeeded", "changed": False, "words": text}, [text])
    depends = depends_lines(cluster, outcome.depends) if outcome.depends.anything else ()
    document = {**report.to_json(), "changed": True, "depends": outcome.depends}
    return CommandResult(document, [text, *depends, *single_page(report)], code_of(report))
