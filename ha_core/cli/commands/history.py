"""`history`: past operations, their seals, their export, and pushing them to a receiver."""

import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, Reason, Yes, command, of_report, option
from ha_core.cli.exits import ATTENTION, FAILURE, SUCCESS
from ha_core.cli.output import plain
from ha_core.cli.platform import opened
from ha_core.model import MoveOperation, Operation
from ha_core.model.seal import SealFingerprint
from ha_core.operations.audit.answers import answers
from ha_core.operations.audit.archived import archived, search_archive
from ha_core.operations.audit.checking import (
    ExpectedSeals,
    PlatformHistory,
    check_file,
    check_stored,
    seal_unsealed,
)
from ha_core.operations.audit.exporting import exported, moment
from ha_core.operations.audit.posting import Receiver
from ha_core.operations.audit.pushing import PushReport, push
from ha_core.operations.audit.searching import LOOKED_AT, OperationFilter, search
from ha_core.operations.audit.strictness import be_strict
from ha_core.operations.audit.trimming import plan_trimming, trim_history
from ha_core.operations.clusters import registered
from ha_core.operations.engine.errors import MoveError, RefusedError, unchanged
from ha_core.plan.audit.events import event_of, line_of, platform_event
from ha_core.plan.facts.verdict import amount
from ha_core.platform import DATABASE_VARIABLE
from ha_core.present.audit import answers_page, archive_line, push_page, seals_page
from ha_core.present.page import Table
from ha_core.present.registry import history_page as changes_page
from ha_core.present.state import history_page, operations_page
from ha_core.store.errors import StoreError

_Since = Annotated[str | None, option("Only operations that ended then or later (ISO 8601; UTC).", metavar="TIME")]
_Until = Annotated[str | None, option("Only operations that ended before.", metavar="TIME")]
_Expect = Annotated[
    str | None, option("A fingerprint that was kept elsewhere; a history without it fails.", metavar="NUMBER:HASH")
]

_Database = Annotated[
    str | None,
    option("The platform's database: its changes of users, rights and quotas too.", envvar=DATABASE_VARIABLE),
]


@command("history show", "All operations, or an audit of one: who, when, why, what was checked, moved, paid.")
def show(
    session: CommandRun,
    operation: Annotated[str | None, Argument(metavar="OPERATION")] = None,
    limit: Annotated[int, option("Maximum number, newest first.", min=1, max=10_000)] = 50,
    before: Annotated[str | None, option("Only operations older than this one.", metavar="OPERATION")] = None,
    user: Annotated[str, option("Only operations on this user.")] = "",
    topic: Annotated[str, option("Only operations on this topic.")] = "",
    cluster: Annotated[str, option("Only operations from, to or on this cluster.")] = "",
    by: Annotated[str, option("Only operations asked for, approved or executed by a name with this part.")] = "",
    since: Annotated[str | None, option("Only operations that began then or later (ISO 8601).", metavar="TIME")] = None,
    until: Annotated[str | None, option("Only operations that began before.", metavar="TIME")] = None,
    file: Annotated[
        Path | None, option("Answer from an export (NDJSON) alone, without ZooKeeper.", metavar="FILE")
    ] = None,
) -> CommandResult:
    first = None if since is None else moment(since, "--since")
    last = None if until is None else moment(until, "--until")
    wanted = OperationFilter(user, topic, cluster, by, first, last)
    if file is not None:
        return _from_export(file, operation, wanted, limit)
    store = session.environment.store
    if operation is None:
        found = search(store, wanted, limit, before)
        document: dict[str, Any] = {
            "operations": [_with_alias(one) for one in found.operations],
            "older": found.older or None,
        }
        more = []
        if found.older:
            named = [
                (name, value)
                for name, value in zip(_NAMES, (user, topic, cluster, by, since, until), strict=True)
                if value
            ]
            options = "".join(f" --{name} {shlex.quote(value)}" for name, value in named)
            looked = "" if len(found.operations) == limit else f" (the newest {LOOKED_AT:,} were looked at)"
            more = [f"older ones: switchyard history{options} --before {found.older}{looked}"]
        return CommandResult(document, [*operations_page(found.operations), *more])
    known = registered.known_operation(session.environment, operation, Operation)
    entries = store.history(operation)
    answered = answers(known, entries)
    audit = {"operation": _with_alias(known), "answers": answered, "history": entries}
    return CommandResult(audit, [*answers_page(known, answered), *history_page(entries)])


def _from_export(file: Path, operation: str | None, wanted: OperationFilter, limit: int) -> CommandResult:
    if operation is None:
        listed = search_archive(file, wanted, limit)
        document = {
            "operations": [_with_alias(one) for one in listed.operations],
            "unreadable": listed.unreadable,
            "changes": listed.changes,
        }
        more = [f"this version cannot read {one}" for one in listed.unreadable]
        changes = changes_page(listed.changes, with_kind=True) if listed.changes else []
        return CommandResult(document, [*operations_page(listed.operations), *more, *changes])
    found = archived(file, operation)
    answered = answers(found.operation, found.history)
    audit = {"operation": _with_alias(found.operation), "answers": answered, "history": found.history}
    page = [*answers_page(found.operation, answered), *history_page(found.history), archive_line(found.seal, file)]
    return CommandResult({**audit, "seal": found.seal}, page)


_NAMES = ("user", "topic", "cluster", "by", "since", "until")


def _with_alias(operation: Operation) -> Any:
    """The document, with `verified` beside `ended_mirrors_verified`, as scripts of earlier versions read it."""
    document = plain(operation)
    if isinstance(operation, MoveOperation) and operation.evidence.ended_mirrors_verified is not None:
        document["evidence"]["verified"] = operation.evidence.ended_mirrors_verified
    return document


@command(
    "history verify",
    "Check the seals of operations and of the platform's changes, or of an export: what is missing?",
)
def verify(
    session: CommandRun,
    file: Annotated[
        Path | None, Argument(metavar="[FILE]", help="An export (NDJSON), checked without ZooKeeper.")
    ] = None,
    expect: _Expect = None,
    expect_platform: Annotated[
        str | None,
        option("Fingerprint of the platform that an earlier check printed: it must be there.", metavar="NUMBER:HASH"),
    ] = None,
    database: _Database = None,
) -> CommandResult:
    try:
        expected = ExpectedSeals(_fingerprint(expect), _fingerprint(expect_platform))
    except ValueError as error:
        raise unchanged(f"{error}.") from error
    if file is not None:
        report = check_file(file, expected)
    else:
        platform = None
        if database:
            read = opened(session, database).read
            platform = PlatformHistory(lambda: (change.sealed for change in read.changes()), read.newest_seal)
        report = check_stored(session.environment.store, expected, platform)
    return CommandResult(report, seals_page(report), ATTENTION if report.faults else SUCCESS)


def _fingerprint(text: str | None) -> SealFingerprint | None:
    return None if text is None else SealFingerprint.read(text)


@command("history export", "Ended operations, in the order of their seals, for archives and auditors.")
def export(
    session: CommandRun,
    since: _Since = None,
    until: _Until = None,
    ndjson: Annotated[
        bool, option("CloudEvents 1.0 in JSON, one in a line; equal states give equal bytes.", "--ndjson")
    ] = False,
    database: _Database = None,
) -> CommandResult:
    store = session.environment.store
    first = None if since is None else moment(since, "--since")
    last = None if until is None else moment(until, "--until")
    if first is not None and last is not None and first >= last:
        raise RefusedError(f"--since {since} is not before --until {until}. Exchange them.")
    installation = store.cluster_id()
    operations = (event_of(installation, one) for one in exported(store, first, last))
    events = chain(operations, _platform_events(session, installation, database, first, last))
    if ndjson and not session.out.as_json:
        for event in events:
            session.out.write(line_of(event) + b"\n")
        return CommandResult({})
    found, rows = [], []
    for one in events:
        rows.append(
            (one.get("sequence", "").lstrip("0"), one["id"], one["type"].rpartition(".")[2], one.get("time", ""))
        )
        if session.out.as_json:  # a table shows four words of each, and an operation may have a million partitions
            found.append(one)
    return CommandResult(
        {"events": found}, [Table(("seal", "operation", "result", "ended"), rows, whole=("operation",))]
    )


def _platform_events(
    session: CommandRun, installation: str, database: str | None, first: datetime | None, last: datetime | None
) -> Iterator[dict[str, Any]]:
    if database:
        read = opened(session, database).read
        for one in read.changes(first, last):
            yield platform_event(installation, one.to_json(), one.sealed)


@command("history seal", "Seal operations that ended without a seal, under an earlier version, as they are now.")
def seal(session: CommandRun) -> CommandResult:
    sealed = seal_unsealed(session.environment)
    return CommandResult({"sealed": sealed}, [f"{amount(len(sealed), 'operation')} sealed"])


@command("history trim", "Remove the oldest sealed operations for good; the hash of the last one stays as the anchor.")
def trim(
    session: CommandRun,
    before: Annotated[str, option("Remove operations that were sealed before this time.", metavar="TIME")],
    exported_to: Annotated[
        Path, option("An export that has all of them; it is checked before anything is removed.", "--export")
    ],
    reason: Reason,
    yes: Yes = False,
) -> CommandResult:
    plan = plan_trimming(session.environment.store, moment(before, "--before"), exported_to)
    if plan.count:
        session.confirm(yes, f"Remove {amount(plan.count, 'operation')} for good?")
    report = trim_history(session.environment, plan, reason)
    return of_report(report) if report else CommandResult({"removed": 0}, ["Nothing is that old: nothing was removed."])


@command("history strict", "`on`: no operation begins while its seal could not be written. `off`: it may.")
def strict(session: CommandRun, state: Annotated[str, Argument(metavar="on|off")], reason: Reason) -> CommandResult:
    if state not in {"on", "off"}:
        raise unchanged(f"{state!r} is neither on nor off.")
    report = be_strict(session.environment, state == "on", reason)
    if report is None:
        return CommandResult({"strict": state == "on", "changed": False}, [f"It is {state} already."])
    return of_report(report)


@command("history push", "Post ended operations to a receiver as CloudEvents, each at least once, and note how far.")
def push_history(
    session: CommandRun,
    to: Annotated[str, option("URL of the receiver.", envvar="SWITCHYARD_HISTORY_URL")],
    token_file: Annotated[
        Path | None, option("File with a bearer token.", envvar="SWITCHYARD_HISTORY_TOKEN_FILE")
    ] = None,
    ca_file: Annotated[
        Path | None, option("Certificates to trust, in place of the system's.", envvar="SWITCHYARD_HISTORY_CA_FILE")
    ] = None,
    every: Annotated[float | None, option("Repeat at this interval until stopped.", metavar="SECONDS", min=1.0)] = None,
) -> CommandResult:
    environment = session.environment

    def pushed() -> PushReport:
        receiver = Receiver.read(to, _token(token_file), "" if ca_file is None else os.fspath(ca_file))
        return push(environment, receiver.name, receiver.post)

    report = pushed()  # a call that is wrong from the beginning ends at once
    while every is not None:
        if report.error or report.pushed:
            session.out.page(push_page(report))
        environment.sleep(every)
        try:
            report = pushed()
        except (MoveError, StoreError) as error:
            # ZooKeeper, or the file of the token, is away for a while: the push goes on where it was.
            session.out.error(f"{error}; again in {every:g} s")
            report = replace(report, pushed=0, error="")
    return CommandResult(report, push_page(report), FAILURE if report.error else SUCCESS)


def _token(file: Path | None) -> str:
    """Read again for each push, so that a new token is used."""
    if file is None:
        return ""
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise unchanged(f"The file of the token, {file}, cannot be read: {type(error).__name__}.") from error
