"""`rights`: rules that allow and deny."""

from __future__ import annotations

from typing import Annotated

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, command, option
from ha_core.cli.platform import Database, changed, opened
from ha_core.present.registry import entries_page

_Principal = Annotated[str, option("User:NAME, Group:NAME (a group of users), or User:* for every user.")]
_Type = Annotated[str, option("topic, group, transactional_id or cluster.", "--type")]
_Name = Annotated[str | None, option("Name of the resource; * for all. A cluster has none.")]
_Prefixed = Annotated[bool, option("All resources with this prefix.", "--prefixed")]
_Operation = Annotated[str, option("read, write, create, delete, alter, describe, …, or all.")]
_Deny = Annotated[bool, option("Deny it; overrides every rule that allows.", "--deny")]
_Host = Annotated[str, option("Only from this address.")]


@command("rights list", "List rules: all, or those of a user, group of users, or topic.")
def list_rules(
    session: CommandRun,
    user: Annotated[str | None, option("Only this user.")] = None,
    group: Annotated[str | None, option("Only this group of users.")] = None,
    topic: Annotated[str | None, option("Only rules that name this topic or prefix.")] = None,
    after: Annotated[str, option("Start after this key.")] = "",
    limit: Annotated[int, option("Maximum number, up to 1000.")] = 1000,
    database: Database = None,
) -> CommandResult:
    filters = (("user", user), ("group", group), ("topic", topic))
    mentioned = {role: name for role, name in filters if name is not None}
    page = opened(session, database).read.page("rules", after, limit, mentioned).to_json()
    return CommandResult(page, entries_page(page["items"]))


@command("rights grant", "Allow an operation, or with --deny forbid it.")
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

    rule = RuleEntry.read(_rule(principal, type_, name, prefixed, operation, deny, host))
    registry = opened(session, database, creates=not dry_run)
    return changed(session, registry, lambda by: registry.create(rule, by, reason, dry_run), dry_run)


@command("rights revoke", "Revoke a rule that was granted with these options.")
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

    key = RuleEntry.read(_rule(principal, type_, name, prefixed, operation, deny, host)).key
    registry = opened(session, database, creates=not dry_run)
    version = registry.read.get("rules", key).version
    return changed(session, registry, lambda by: registry.delete("rules", key, version, by, reason, dry_run), dry_run)


def _rule(
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
