"""`platform`: the database of users and rights, its service, and entries of any kind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, command, option
from ha_core.cli.platform import Database, Version, changed, named, opened
from ha_core.datacache.change_notifier import ChangeNotifier
from ha_core.operations.access.caches import ask_reload
from ha_core.operations.access.publishing_clusters import PublishingClusters
from ha_core.operations.access.publishing_quotas import PublishingQuotas
from ha_core.present.registry import entries_page, history_page

MAX_VALUE = 1 << 20
_Kind = Annotated[str, Argument(metavar="KIND", help="users, rules, quotas, topics, instances, clusters or settings")]
_Key = Annotated[str, Argument(metavar="KEY")]


@command("platform migrate", "Migrate the tables to the version of this release.")
def migrate(session: CommandRun, database: Database = None) -> CommandResult:
    from ha_core.platform.database import Database as Tables

    before, now = Tables(named(database)).migrate()
    return CommandResult(
        {"before": before, "now": now}, [f"The tables were in version {before or 'none'}, now in {now}."]
    )


@command("platform serve", "Serve the platform over HTTP, to gateways and operators with a token.")
def serve(
    session: CommandRun,
    host: Annotated[str, option("Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("Port to listen on.", min=1, max=65535)] = 8085,
    tokens: Annotated[
        Path | None, option("File of tokens, one per line: ROLE NAME TOKEN. Default: SWITCHYARD_PLATFORM_TOKENS.")
    ] = None,
    certificate: Annotated[Path | None, option("PEM: serve TLS, with --key.")] = None,
    key: Annotated[Path | None, option("PEM: the certificate's private key.")] = None,
    plain: Annotated[bool, option("Listen without TLS on addresses other than loopback.", "--plain")] = False,
    database: Database = None,
) -> CommandResult:
    from ha_core.platform.serving import server
    from ha_core.platform.serving import tokens as known

    if (certificate is None) != (key is None):
        raise BadParameter("TLS needs both --certificate and --key")
    callers = known.read(tokens, os.environ)
    server.require_safe(host, certificate is not None, plain)
    registry = opened(session, database, creates=True)
    if session.connects is None or session.opens is None:
        session.out.progress(
            "No ZooKeeper is given: gateways read changes only once a minute, and quotas and clusters are not "
            "published."
        )
    else:
        announcer = ChangeNotifier(registry.read.newest_us, session.connects, session.out.progress)
        publishing = PublishingQuotas(registry.source("quotas"), session.connects, session.out.progress)
        clusters = PublishingClusters(registry.source("clusters"), session.opens, session.out.progress)
        registry.on_change(announcer.now, publishing.now, clusters.now)
        for loop in (announcer, publishing, clusters):
            loop.start()
            session.callback(loop.close)
    server.serve(registry, callers, host, port, certificate, key, publishes_quotas=session.connects is not None)
    return CommandResult({"result": "ended"}, ["The service has ended."])


@command("platform reload", "Make gateways reload all entries of a kind; current entries stay in force meanwhile.")
def reload(
    session: CommandRun,
    kind: Annotated[str, Argument(metavar="KIND", help="users, rules or settings")],
    gateway: Annotated[str | None, option("Only this gateway.", metavar="GATEWAY")] = None,
) -> CommandResult:
    asked = ask_reload(session.environment, kind, gateway)
    if not asked:
        return CommandResult({"asked": []}, [f"No gateway follows {kind} of the platform."])
    return CommandResult({"asked": asked}, [f"Asked to reload all {kind}: {', '.join(asked)}."])


@command("platform list", "List the entries of a kind.")
def list_kind(
    session: CommandRun,
    kind: _Kind,
    after: Annotated[str, option("Start after this key.")] = "",
    limit: Annotated[int, option("Maximum number, up to 1000.")] = 1000,
    database: Database = None,
) -> CommandResult:
    page = opened(session, database).read.page(kind, after, limit).to_json()
    return CommandResult(page, entries_page(page["items"], with_key=True))


@command("platform history", "Changes of a kind or of one key: who, what, when and why.")
def history(
    session: CommandRun,
    kind: _Kind,
    key: Annotated[str | None, Argument(metavar="[KEY]")] = None,
    before_us: Annotated[int | None, option("Only changes older than this change time.")] = None,
    limit: Annotated[int, option("Maximum number, up to 1000.")] = 100,
    database: Database = None,
) -> CommandResult:
    page = opened(session, database).read.history(kind, key, before_us, limit).to_json()
    return CommandResult(page, history_page(page["items"]))


@command("platform put", "Create or replace an entry, from a file with its JSON.")
def put(
    session: CommandRun,
    kind: _Kind,
    file: Annotated[Path, option("JSON of the value.")],
    reason: Reason,
    version: Version = None,
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    from ha_core.platform.changing import put as put_edit
    from ha_core.platform.entry import kind_of

    registry = opened(session, database, creates=not dry_run)
    try:
        with file.open(encoding="utf-8") as text:
            value = json.loads(text.read(MAX_VALUE))
    except (OSError, ValueError, RecursionError) as error:
        raise BadParameter(f"{file} cannot be read as JSON: {type(error).__name__}") from None
    entry = kind_of(kind).read(value)
    found = registry.read.find(kind, entry.key)
    at = version if version is not None or found is None else found.version
    return changed(session, registry, lambda by: registry.apply([put_edit(entry, at)], by, reason, dry_run), dry_run)


@command("platform delete", "Delete an entry.")
def delete(
    session: CommandRun,
    kind: _Kind,
    key: _Key,
    reason: Reason,
    version: Version = None,
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    registry = opened(session, database, creates=not dry_run)
    at = registry.read.get(kind, key).version if version is None else version
    return changed(session, registry, lambda by: registry.delete(kind, key, at, by, reason, dry_run), dry_run)
