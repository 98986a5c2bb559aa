"""`rights`: who may do what."""

from __future__ import annotations

from typing import Annotated

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, command, option
from ha_core.cli.platform import Database, changed, opened
from ha_core.present.registry import entries_page

_Principal = Annotated[str, option("User:NAME, Group:NAME (a group of users), or User:* for everybody.")]
_Type = Annotated[str, option("topic, group, transactional_id or cluster.", "--type")]
_Name = Annotated[str | None, option("Of the resource; * for all. A cluster has none.")]
_Prefixed = Annotated[bool, option("All whose names begin so.", "--prefixed")]
_Operation = Annotated[str, option("read, write, create, delete, alter, describe, …, or all.")]
_Deny = Annotated[bool, option("Forbid it; wins over all that allow.", "--deny")]
_Host = Annotated[str, option("Only from this address.")]


@command("rights list", "All rules, or those of a user, group of users, or topic.")
def list_rules(
    session: CommandRun,
    user: Annotated[str | None, option("Only for this user.")] = None,
    group: Annotated[str | None, option("Only for this group of users.")] = None,
    topic: Annotated[str | None, option("Only those that name this topic or prefix.")] = None,
    after: Annotated[str, option("Go on behind this key.")] = "",
    limit: Annotated[int, option("At most so many, up to 1000.")] = 1000,
    database: Database = None,
) -> CommandResult:
    asked = (("user", user), ("group", group), ("topic", topic))
    mentioned = {role: name for role, name in asked if name is not None}
    page = opened(session, database).read.page("rules", after, limit, mentioned).to_json()
    return CommandResult(page, entries_page(page["items"]))


@command("rights grant", "Allow something, or with --deny forbid it.")
def grant(
    session: CommandRun,
    principal: _Principal,
    type_: _Type,
    operation: _Operation,
    reason: Reason,
    name: _Name = None,
    prefixed: _Prefixed = False,
    deny: _Deny = False,
    host: _Host = "*",
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    from ha_core.platform.kinds.rules import RuleEntry

    rule = RuleEntry.read(_said(principal, type_, name, prefixed, operation, deny, host))
    registry = opened(session, database, creates=not dry_run)
    return changed(session, registry, lambda by: registry.create(rule, by, reason, dry_run), dry_run)


@command("rights revoke", "Take back a rule that was granted in the same words.")
def revoke(
    session: CommandRun,
    principal: _Principal,
    type_: _Type,
    operation: _Operation,
    reason: Reason,
    name: _Name = None,
    prefixed: _Prefixed = False,
    deny: _Deny = False,
    host: _Host = "*",
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    from ha_core.platform.kinds.rules import RuleEntry

    key = RuleEntry.read(_said(principal, type_, name, prefixed, operation, deny, host)).key
    registry = opened(session, database, creates=not dry_run)
    version = registry.read.get("rules", key).version
    return changed(session, registry, lambda by: registry.delete("rules", key, version, by, reason, dry_run), dry_run)


def _said(
    principal: str, type_: str, name: str | None, prefixed: bool, operation: str, deny: bool, host: str
) -> dict[str, object]:
    return {
        "principal": principal,
        "resource_type": type_,
        "pattern": "prefixed" if prefixed else "literal",
        "operation": operation,
        "effect": "deny" if deny else "allow",
        "host": host,
        **({} if name is None else {"name": name}),
    }
