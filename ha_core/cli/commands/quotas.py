"""`quotas`: quotas in the platform."""

from __future__ import annotations

from typing import Annotated

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, command, option
from ha_core.cli.platform import Database, Version, changed, opened
from ha_core.present.registry import entries_page

_User = Annotated[str | None, option("A user; <default>: every user without a quota of its own.")]
_Topic = Annotated[str | None, option("One topic of the user.")]
_Instance = Annotated[str | None, option("A client id, of the user or of all.")]


@command("quotas list", "List quotas: all, or those of a user or topic.")
def list_quotas(
    session: CommandRun,
    user: _User = None,
    topic: _Topic = None,
    after: Annotated[str, option("Start after this key.")] = "",
    limit: Annotated[int, option("Maximum number, up to 1000.")] = 1000,
    database: Database = None,
) -> CommandResult:
    mentioned = {role: name for role, name in (("user", user), ("topic", topic)) if name is not None}
    page = opened(session, database).read.page("quotas", after, limit, mentioned).to_json()
    return CommandResult(page, entries_page(page["items"]))


@command("quotas set", "Limit a user, a user's topic, or an instance; omitted limits are removed.")
def set_quota(
    session: CommandRun,
    reason: Reason,
    user: _User = None,
    topic: _Topic = None,
    instance: _Instance = None,
    producer_byte_rate: Annotated[int | None, option("Bytes per second written.")] = None,
    consumer_byte_rate: Annotated[int | None, option("Bytes per second read.")] = None,
    request_percentage: Annotated[float | None, option("Percentage of one thread's time.")] = None,
    version: Version = None,
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    from ha_core.platform.changing import put
    from ha_core.platform.kinds.quotas import QuotaEntry

    limits = {
        "producer_byte_rate": producer_byte_rate,
        "consumer_byte_rate": consumer_byte_rate,
        "request_percentage": request_percentage,
    }
    quota = QuotaEntry.read({"user": user, "topic": topic, "instance": instance, **limits})
    registry = opened(session, database, creates=not dry_run)
    found = registry.read.find("quotas", quota.key)
    at = version if version is not None or found is None else found.version
    return changed(session, registry, lambda by: registry.apply([put(quota, at)], by, reason, dry_run), dry_run)


@command("quotas delete", "Remove a quota.")
def delete(
    session: CommandRun,
    reason: Reason,
    user: _User = None,
    topic: _Topic = None,
    instance: _Instance = None,
    version: Version = None,
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    from ha_core.platform.entry import key_of

    registry = opened(session, database, creates=not dry_run)
    key = key_of(user, topic, instance)
    at = registry.read.get("quotas", key).version if version is None else version
    return changed(session, registry, lambda by: registry.delete("quotas", key, at, by, reason, dry_run), dry_run)
