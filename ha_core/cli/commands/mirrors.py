"""`mirror link`, `throttle`, `sync`, `verify`, `unlink`, `reconcile`; `mirrors`: topics copied to another cluster, and
patterns of them."""

import secrets
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from ha_core.cli.command import (
    Cluster,
    CommandResult,
    CommandRun,
    DryRun,
    Patterns,
    Reason,
    Yes,
    carry_out,
    code_of,
    command,
    of_report,
    of_reports,
    option,
)
from ha_core.cli.exits import ATTENTION, SUCCESS
from ha_core.operations.absence.given_up import end_interrupted
from ha_core.operations.absence.reconciling import reconcile
from ha_core.operations.clusters.mirrors import mirrors_now, synced
from ha_core.operations.copies.comparing import SAMPLE, compare_mirrors, verify_of
from ha_core.operations.copies.syncing.passes import sync_mirrors
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.mirror.linking import link_request, plan_link
from ha_core.operations.mirror.pattern_states import patterns_now
from ha_core.operations.mirror.patterns import (
    ALL_TOPICS,
    PatternRequest,
    are_patterns,
    pattern_request,
    plan_patterns,
    put_patterns,
    remove_patterns,
    to_remove,
)
from ha_core.operations.mirror.throttling import UNLIMITED, limit_of, throttle
from ha_core.operations.mirror.unlinking import judged, unlink
from ha_core.operations.overview.topic_health import left_behind
from ha_core.plan.facts.verdict import listed
from ha_core.present.mirror_patterns import pattern_proposal_page, removed_words
from ha_core.present.mirror_picture import document, svg
from ha_core.present.mirrors import below_mirrors, compared_page, mirrors_page, reconciled_page, synced_page
from ha_core.present.moves import startable_page

TopicPatterns = Annotated[list[str], Argument(metavar="TOPIC…", help="Names or patterns.")]
HOW_MUCH = "none | sample (a tenth, at most 30 s per topic) | full (slow: reads all of both)"
OneOfSeveral = Annotated[str, option("Cluster that has the copies, where a topic has several.", "--to")]


@command("mirror link", "Create the topics on the standby with their settings, and copy them there from now on.")
def link(
    session: CommandRun,
    source: Annotated[str, option("Cluster in which they are written.", "--from")],
    target: Annotated[str, option("Cluster that gets the copies.", "--to")],
    reason: Reason,
    topics: Annotated[
        list[str] | None,
        Argument(metavar="[TOPIC]…", help="Names; or patterns, which are kept: later topics get a copy, too."),
    ] = None,
    all_topics: Annotated[bool, option("All topics of the cluster, later ones too.", "--all-topics")] = False,
    exclude: Annotated[
        list[str] | None, option("Topics that the patterns leave out: names or patterns.", metavar="TOPIC")
    ] = None,
    leave_setting: Annotated[
        list[str] | None, option("Settings not to sync from the source: names or patterns.", metavar="NAME")
    ] = None,
    max_bytes_s: Annotated[str, option("Maximum bytes per second copied, per topic.", metavar="N")] = UNLIMITED,
    remove_revoked_rights: Annotated[
        bool, option("Remove brought access rules that the source has revoked.", "--remove-revoked-rights")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    policy: dict[str, Any] = {
        "settings_left_alone": tuple(leave_setting or ()),
        "max_bytes_s": limit_of(max_bytes_s),
        "remove_revoked_rights": remove_revoked_rights,
    }
    named = [*(topics or ()), *([ALL_TOPICS] if all_topics else ())]
    if are_patterns(named):
        return _put(session, pattern_request(named, source, target, exclude or (), reason, **policy), dry_run, yes)
    if exclude:
        raise unchanged("--exclude is for patterns: of named topics, leave out those that shall have no copy.")
    request = link_request(named, source, target, reason, **policy)
    return carry_out(session, request, plan_link, startable_page, "Mirror them now?", dry_run, yes)


def _put(session: CommandRun, request: PatternRequest, dry_run: bool, yes: bool) -> CommandResult:
    proposal = plan_patterns(session.environment, request)
    page = pattern_proposal_page(proposal)
    if answer := session.judge(proposal, page, "Mirror them and later topics from now on?", dry_run, yes):
        return answer
    report = put_patterns(session.environment, proposal)
    if report is None:
        words = "nothing was changed: the patterns stand like this already"
        return CommandResult({"words": words}, [words])
    return of_report(report)


@command("mirror throttle", "Limit the copy rate of topics, at once, without restarting copiers.")
def limit(
    session: CommandRun,
    topics: TopicPatterns,
    max_bytes_s: Annotated[str, option("Maximum bytes per second copied, per topic; or none.", metavar="N|none")],
    reason: Reason,
    target: OneOfSeveral = "",
    dry_run: DryRun = False,
) -> CommandResult:
    result = throttle(session.environment, topics, target, limit_of(max_bytes_s), reason, dry_run)
    if result.report is None:
        return CommandResult(result, [result.words])
    session.out.progress(result.words)
    return of_report(result.report)


@command("mirror unlink", "Stop copying topics, or remove patterns. The copies stay, or are deleted.")
def end(
    session: CommandRun,
    topics: Annotated[
        list[str],
        Argument(metavar="TOPIC…", help="Names; or patterns as they were given, whose mirrors go on without them."),
    ],
    target: Annotated[str, option("Cluster that has the copies.", "--to")],
    reason: Reason,
    delete_copy: Annotated[bool, option("Delete copies that nothing needs any more.", "--delete-copy")] = False,
    source: Annotated[str, option("Cluster of a pattern, where it has several.", "--from")] = "",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    if are_patterns(topics):
        if delete_copy:
            raise unchanged("--delete-copy is for topics by their names: a pattern has no copies of its own.")
        return _remove(session, topics, target, reason, source, dry_run, yes)
    if dry_run:
        mirrors_to_end = judged(session.environment, topics, target, delete_copy)
        named = listed(mirror.key for mirror in mirrors_to_end.mirrors)
        gone = f", and delete the copies of {listed(mirrors_to_end.topic_ids)}" if mirrors_to_end.topic_ids else ""
        left_out_by = [pattern.key for pattern in mirrors_to_end.patterns]
        out = f"; the patterns {listed(left_out_by)} would leave them out from then on" if left_out_by else ""
        document = {
            "mirrors": mirrors_to_end.mirrors,
            "deletes": sorted(mirrors_to_end.topic_ids),
            "left_out_by": left_out_by,
            "result": "planned",
        }
        return CommandResult(document, [f"would end {named}{gone}{out}"])
    end_interrupted(session.environment, "unlink")
    further = ", and delete the copies" if delete_copy else ""
    session.confirm(yes, f"End the mirrors of {listed(topics)} in {target}{further}?")
    return of_reports(unlink(session.environment, topics, target, reason, delete_copy))


def _remove(
    session: CommandRun, patterns: list[str], target: str, reason: str, source: str, dry_run: bool, yes: bool
) -> CommandResult:
    gone = to_remove(session.environment, patterns, target, source)
    words = removed_words(gone)
    if dry_run:
        document = {"patterns": gone.patterns, "mirrors": gone.mirrors, "result": "planned"}
        return CommandResult(document, [f"would remove {words}"])
    session.confirm(yes, f"Remove {words}?")
    return of_report(remove_patterns(session.environment, patterns, target, reason, source))


@command(
    "mirror reconcile",
    "Count the lost tail of a cluster that is back, and make it the standby. None of the lost tail is served.",
)
def reconcile_now(
    session: CommandRun,
    cluster: Cluster,
    reason: Reason,
    topics: Patterns = None,
    mirror: Annotated[bool, option("Mirror the topics to it from now on.", "--mirror/--no-mirror")] = True,
    accept_loss: Annotated[
        bool, option("Accept losses that cannot be counted, of the named topics.", "--accept-loss")
    ] = False,
    verify: Annotated[str, option(f"Mirrored records are compared with the copies first: {HOW_MUCH}.")] = "sample",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    environment, chosen, level = session.environment, topics or (), verify_of(verify)
    run = partial(
        reconcile, environment, cluster, chosen, mirror=mirror, accept_loss=accept_loss, verify=level, reason=reason
    )
    shown = None
    if not dry_run and not yes:
        proposed = run(dry_run=True)
        shown = proposed.judged
        session.out.page(reconciled_page(proposed))
        session.confirm(yes, f"Keep these counts{', and mirror the topics to ' + cluster if mirror else ''}?")
    result = run(dry_run=dry_run, shown=shown)
    code = code_of(*result.reports) or (ATTENTION if result.needs_attention else SUCCESS)
    return CommandResult(result, reconciled_page(result), code)


@command(
    "mirror sync",
    "Bring settings, partitions, rights and groups' offsets to the copies; exit code 6 if some are stuck.",
)
def sync(
    session: CommandRun,
    topics: Annotated[
        list[str] | None, Argument(metavar="[TOPIC]…", help="Names or patterns. Default: all mirrors.")
    ] = None,
    target: OneOfSeveral = "",
    dry_run: DryRun = False,
) -> CommandResult:
    syncs = sync_mirrors(session.environment, topics or (), target, dry_run)
    return CommandResult(syncs, synced_page(syncs), ATTENTION if syncs.stops else SUCCESS)


@command("mirrors", "Topics that are copied, their lag per partition, and differences from the source.")
def show(
    session: CommandRun,
    picture: Annotated[Path | None, option("Draw them: a file .svg, or .html with the tables.", metavar="FILE")] = None,
) -> CommandResult:
    if picture is not None and picture.suffix not in {".svg", ".html"}:
        raise RefusedError(f"A picture {picture}: end its name with .svg or .html.")
    environment = session.environment
    mirrors = mirrors_now(environment)
    looks = synced(environment, mirrors.mirrors)
    left = [*left_behind(environment)]
    below = [*below_mirrors(mirrors, patterns_now(environment), left, looks, environment.age_s)]
    page = [*mirrors_page(mirrors), *below]
    if picture is not None:
        now = environment.now()
        picture.write_text(svg(mirrors, now) if picture.suffix == ".svg" else document(mirrors, below, now))
        page.append(f"picture: {picture.resolve()}")
    return CommandResult(mirrors.rows, page)  # `status` has the totals and further findings


@command(
    "mirror verify", "Compare copies with their sources, record by record; exit code 6 if any differ or are missing."
)
def verify(
    session: CommandRun,
    topics: Annotated[list[str], Argument(metavar="TOPIC…", help="Names or patterns.")],
    target: Annotated[str, option("Cluster that has the copies, where a topic has several.", "--to")] = "",
    sample: Annotated[bool, option("Compare only a sample of the offset ranges.", "--sample")] = False,
    share: Annotated[float, option("Share of the ranges that a sample compares.", min=0.0, max=1.0)] = SAMPLE,
    seed: Annotated[int | None, option("Seed of the sample. Default: a new one each time.")] = None,
) -> CommandResult:
    by = secrets.randbits(31) if seed is None else seed
    comparison = compare_mirrors(session.environment, topics, target, share if sample else 1.0, by)
    return CommandResult(comparison, compared_page(comparison), SUCCESS if comparison.equal else ATTENTION)
