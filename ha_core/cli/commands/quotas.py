"""Quotas: `quotas`, in the platform; `client-quotas`, those that gateways enforce, in ZooKeeper.

Kafka's tools change the latter through a gateway, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from typer import BadParameter

from ha_core.cli.command import CommandResult, CommandRun, DryRun, OptionGroup, Yes, command, option
from ha_core.cli.platform import Database, PageOptions, VersionedWrite, listed, opened
from ha_core.model.quota import KINDS, Limits, QuotaEntity, QuotaKind, check_entity, check_limit, check_limits, named
from ha_core.operations.access.publishing import QuotaPublisher
from ha_core.present.registry import QuotaLine, changes_page, quotas_page

User = Annotated[str | None, option("A user; <default>: every user without a quota of its own.")]
Topic = Annotated[str | None, option("One topic of the user.")]


@dataclass(frozen=True)
class QuotaOptions(OptionGroup):
    user: User = None
    topic: Topic = None
    instance: Annotated[
        str | None, option("A client id, of the user or of all; <default>: all without a quota of their own.")
    ] = None

    def entity(self) -> QuotaEntity:
        return QuotaEntity(self.user, self.instance, self.topic)


@dataclass(frozen=True)
class LimitOptions(OptionGroup):
    producer_byte_rate: Annotated[float | None, option("Bytes per second written.")] = None
    consumer_byte_rate: Annotated[float | None, option("Bytes per second read.")] = None
    request_percentage: Annotated[float | None, option("Percentage of one thread's time.")] = None

    def given(self) -> dict[QuotaKind, float]:
        limits = {
            QuotaKind.PRODUCE: self.producer_byte_rate,
            QuotaKind.FETCH: self.consumer_byte_rate,
            QuotaKind.REQUEST: self.request_percentage,
        }
        return {kind: value for kind, value in limits.items() if value is not None}


@command("client-quotas list", "List the quotas that gateways enforce.")
def list_quotas(session: CommandRun, user: User = None) -> CommandResult:
    store = session.environment.store
    found = store.quotas()
    bindings = store.load().bindings if any(quota.entity is None for quota in found.readable.values()) else {}
    quotas = [
        (named(quota.name, bindings) if quota.entity is None else quota.entity, quota.limits)
        for quota in found.readable.values()
    ]
    shown = [_line(entity, limits) for entity, limits in quotas if user in (None, entity.user)]
    shown.sort(key=lambda line: (line.user or "", line.topic or "", line.instance or ""))
    document = {"quotas": [line.to_json() for line in shown], "unreadable": found.unreadable}
    return CommandResult(document, quotas_page(shown, found.unreadable))


@command("client-quotas set", "Limit a user, a user's topic, or an instance; omitted limits stay.")
def set_quota(session: CommandRun, of: QuotaOptions, given: LimitOptions, dry_run: DryRun = False) -> CommandResult:
    entity, limits = of.entity(), given.given()
    _check(entity, limits)
    after = limits if dry_run else session.environment.store.change_quota(entity, limits)
    return _changed([(entity, after)], dry_run)


@command("client-quotas remove", "Remove a quota, or one of its limits.")
def remove(
    session: CommandRun,
    of: QuotaOptions,
    limit: Annotated[list[str] | None, option("Only this limit. Repeatable.")] = None,
    dry_run: DryRun = False,
) -> CommandResult:
    entity = of.entity()
    _check(entity, None)
    if unknown := set(limit or ()) - KINDS.keys():
        raise BadParameter(f"--limit {min(unknown)}: {', '.join(KINDS)} are known")
    gone = dict.fromkeys([KINDS[name] for name in limit] if limit else QuotaKind)
    after = {} if dry_run else session.environment.store.change_quota(entity, gone)
    return _changed([(entity, after)], dry_run)


@command("client-quotas publish", "Publish the platform's quotas now; other quotas stay unless --prune.")
def publish(
    session: CommandRun,
    prune: Annotated[bool, option("Remove quotas that the platform does not have.", "--prune")] = False,
    database: Database = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    store = session.environment.store
    publisher = QuotaPublisher(opened(session, database).source("quotas"))
    changes = publisher.plan(store, prune)
    if changes and not dry_run:
        session.confirm(yes, f"Change {len(changes)} of the quotas that gateways enforce?")
        changes = publisher.once(store, prune)
    return _changed(changes, dry_run, list(publisher.problems.values()))


def _check(entity: QuotaEntity, limits: Limits | None) -> None:
    """:raises BadParameter: the entity or a limit is invalid."""
    try:
        for what, name in (("user", entity.user), ("instance", entity.instance)):
            if name is not None and not name.isprintable():
                raise ValueError(f"{what} {name!r} has unprintable characters; leave them out")  # noqa: TRY301
        check_entity(entity)
        if limits is not None:
            for kind, value in limits.items():
                check_limit(kind.value, value)
            check_limits(entity, limits)
    except ValueError as error:
        raise BadParameter(str(error)) from None


def _changed(
    changes: Sequence[tuple[QuotaEntity, Limits]], dry_run: bool, problems: Sequence[str] = ()
) -> CommandResult:
    lines = [_line(entity, limits) for entity, limits in changes]
    result = "dry run" if dry_run else "succeeded"
    document = {"result": result, "changes": [line.to_json() for line in lines], "problems": list(problems)}
    return CommandResult(document, changes_page(lines, dry_run, problems))


def _line(entity: QuotaEntity, limits: Limits) -> QuotaLine:
    return QuotaLine(entity.user, entity.topic, entity.instance, {kind.value: value for kind, value in limits.items()})


@command("quotas list", "List quotas: all, or those of a user or topic.")
def list_platform_quotas(
    session: CommandRun, page: PageOptions, user: User = None, topic: Topic = None
) -> CommandResult:
    return listed(session, page, "quotas", {"user": user, "topic": topic})


@command("quotas set", "Limit a user, a user's topic, or an instance; omitted limits are removed.")
def set_platform_quota(
    session: CommandRun, of: QuotaOptions, limits: LimitOptions, write: VersionedWrite
) -> CommandResult:
    from ha_core.platform.kinds.quotas import QuotaEntry

    given = {kind.value: value for kind, value in limits.given().items()}
    return write.put(session, QuotaEntry.read({**of.entity()._asdict(), **given}))


@command("quotas delete", "Remove a quota.")
def delete_platform_quota(session: CommandRun, of: QuotaOptions, write: VersionedWrite) -> CommandResult:
    from ha_core.platform.kinds.quotas import QuotaEntry

    return write.delete(session, "quotas", QuotaEntry.key_in(of.entity()._asdict()))
