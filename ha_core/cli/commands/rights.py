"""`rights`: rules that allow and deny."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ha_core.cli.command import CommandResult, CommandRun, OptionGroup, command, option
from ha_core.cli.platform import PageOptions, WriteOptions, listed

if TYPE_CHECKING:
    from ha_core.platform.kinds.rules import RuleEntry


@dataclass(frozen=True)
class _RuleOptions(OptionGroup):
    principal: Annotated[str, option("User:NAME, Group:NAME (a group of users), or User:* for every user.")]
    type_: Annotated[str, option("topic, group, transactional_id or cluster.", "--type")]
    operation: Annotated[str, option("read, write, create, delete, alter, describe, …, or all.")]
    name: Annotated[str | None, option("Name of the resource; * for all. A cluster has none.")] = None
    prefixed: Annotated[bool, option("All resources with this prefix.", "--prefixed")] = False
    deny: Annotated[bool, option("Deny it; overrides every rule that allows.", "--deny")] = False
    host: Annotated[str, option("Only from this address.")] = "*"

    def rule(self) -> RuleEntry:
        """:raises InvalidError: there can be no such rule."""
        from ha_core.platform.kinds.rules import RuleEntry

        return RuleEntry.read(
            {
                "principal": self.principal,
                "resource_type": self.type_,
                "pattern": "prefixed" if self.prefixed else "literal",
                "operation": self.operation,
                "effect": "deny" if self.deny else "allow",
                "host": self.host,
                **({} if self.name is None else {"name": self.name}),
            }
        )


@command("rights list", "List rules: all, or those of a user, group of users, or topic.")
def list_rules(
    session: CommandRun,
    page: PageOptions,
    user: Annotated[str | None, option("Only this user.")] = None,
    group: Annotated[str | None, option("Only this group of users.")] = None,
    topic: Annotated[str | None, option("Only rules that name this topic or prefix.")] = None,
) -> CommandResult:
    return listed(session, page, "rules", {"user": user, "group": group, "topic": topic})


@command("rights grant", "Allow an operation, or with --deny forbid it.")
def grant(session: CommandRun, options: _RuleOptions, write: WriteOptions) -> CommandResult:
    rule = options.rule()
    return write.create(session, write.opened(session), rule)


@command("rights revoke", "Revoke a rule that was granted with these options.")
def revoke(session: CommandRun, options: _RuleOptions, write: WriteOptions) -> CommandResult:
    from ha_core.platform.changing import Edit

    key, registry = options.rule().key, write.opened(session)
    return write.made(session, registry, [Edit("rules", key, None, registry.read.get("rules", key).version)])
