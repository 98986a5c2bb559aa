"""`status`: the installation now, its problems with an exit code, or a screen that follows it."""

from typing import Annotated

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.cli.exits import ATTENTION, OUT_OF_REACH, SUCCESS
from ha_core.operations.overview.picture import take_picture
from ha_core.present.problems import away, notices_page, problems_page
from ha_core.present.status import caches_page, columns_help, status_page
from ha_core.store.errors import StoreUnavailableError

_HELP = f"""Clusters, gateways, running operations, locks, and problems.

{columns_help()}"""


@command("status", _HELP)
def status(
    session: CommandRun,
    check: Annotated[
        bool,
        option("Only problems that need an operator; exit code 6 if any (4: ZooKeeper does not answer).", "--check"),
    ] = False,
    watching: Annotated[
        bool, option("One screen, drawn again and again; q ends it. In a pipe a page for each look.", "--watch")
    ] = False,
    interval: Annotated[float, option("With --watch: seconds between two looks.", min=0.5, max=3600.0)] = 5.0,
) -> CommandResult:
    if watching:
        # It imports an HTTP client, which no other command needs.
        from ha_core.cli.watching import watch

        watch(session, interval)
    try:
        environment = session.environment
        now = take_picture(environment)
    except StoreUnavailableError as error:
        if not check:
            raise
        problem = away(str(error))
        document = {"problems": [problem], "notices": [], "error": str(error), "result": "refused"}
        return CommandResult(document, problems_page([problem]), OUT_OF_REACH)
    found, known = now.assessment.problems, now.assessment.notices
    warnings = [f"warning: {text}" for text in now.warnings]
    below = [*problems_page(found), *notices_page(known), *warnings]
    if check:
        return CommandResult(now, below, ATTENTION if found else SUCCESS)
    page = status_page(now.revision, now.clusters, now.gateways, now.running, now.locks, environment.age_s)
    return CommandResult(now, [*page, *caches_page(now.platform, now.gateways), *below])
