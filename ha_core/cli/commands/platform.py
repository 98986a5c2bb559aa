"""`platform`: the database of users and rights, its service, and entries of any kind."""

import os
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.cli.platform import Database, PageOptions, VersionedWrite, listed, named, opened
from ha_core.datacache.poller import ChangeNotifier
from ha_core.operations.access.caches import ask_reload
from ha_core.operations.access.enforcing import RestEnforcement
from ha_core.operations.access.publishing import PublishingClusters, PublishingQuotas
from ha_core.operations.engine.errors import unchanged
from ha_core.present.registry import history_page

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
    enforcement = None
    if session.opens is not None:
        enforcement = RestEnforcement(session.opens, registry.read.has_change_at, registry.database.name)
        session.callback(enforcement.close)
    server.serve(
        registry,
        callers,
        host,
        port,
        certificate,
        key,
        publishes_quotas=session.connects is not None,
        enforcement=enforcement,
    )
    return CommandResult({"result": "ended"}, ["The service has ended."])


@command("platform reload", "Make gateways reload all entries of a kind; current entries stay in force meanwhile.")
def reload(
    session: CommandRun,
    kind: Annotated[str, Argument(metavar="KIND", help="users, rules or settings")],
    gateway: Annotated[str | None, option("Only this gateway.", metavar="GATEWAY")] = None,
) -> CommandResult:
    gateways = ask_reload(session.environment, kind, gateway)
    if not gateways:
        return CommandResult({"asked": []}, [f"No gateway follows {kind} of the platform."])
    return CommandResult({"asked": gateways}, [f"Asked to reload all {kind}: {', '.join(gateways)}."])


@command("platform forget", "Stop naming a change that no gateway follows in `status --check`.")
def forget(
    session: CommandRun, kind: Annotated[str, Argument(metavar="KIND", help="users, rules, settings or quotas")]
) -> CommandResult:
    store = session.environment.store
    if not store.forget_platform_change(kind):
        noted = ", ".join(change.kind for change in store.platform_changes()) or "none"
        raise unchanged(f"No change of {kind} is noted (noted: {noted}).")
    return CommandResult({"result": "succeeded", "kind": kind}, [f"The change of {kind} is not named any more."])


@command("platform list", "List the entries of a kind.")
def list_kind(session: CommandRun, kind: _Kind, page: PageOptions) -> CommandResult:
    return listed(session, page, kind, with_key=True)


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


@command("platform put", "Create or replace an entry, from a file with its JSON or YAML.")
def put(
    session: CommandRun, kind: _Kind, file: Annotated[Path, option("JSON or YAML of the value.")], write: VersionedWrite
) -> CommandResult:
    from ha_core.platform import documents
    from ha_core.platform.kinds import kind_of

    return write.put(session, kind_of(kind).read(documents.read(file)))


@command("platform delete", "Delete an entry.")
def delete(session: CommandRun, kind: _Kind, key: _Key, write: VersionedWrite) -> CommandResult:
    return write.delete(session, kind, key)
