"""`quotas`: quotas in the platform."""

from __future__ import annotations

from ha_core.cli.command import CommandResult, CommandRun, command
from ha_core.cli.platform import PageOptions, VersionedWrite, listed
from ha_core.cli.quotas import LimitOptions, QuotaOptions, Topic, User


@command("quotas list", "List quotas: all, or those of a user or topic.")
def list_quotas(session: CommandRun, page: PageOptions, user: User = None, topic: Topic = None) -> CommandResult:
    return listed(session, page, "quotas", {"user": user, "topic": topic})


@command("quotas set", "Limit a user, a user's topic, or an instance; omitted limits are removed.")
def set_quota(session: CommandRun, of: QuotaOptions, limits: LimitOptions, write: VersionedWrite) -> CommandResult:
    from ha_core.platform.kinds.quotas import QuotaEntry

    given = {kind.value: value for kind, value in limits.given().items()}
    return write.put(session, QuotaEntry.read({**of.entity()._asdict(), **given}))


@command("quotas delete", "Remove a quota.")
def delete(session: CommandRun, of: QuotaOptions, write: VersionedWrite) -> CommandResult:
    from ha_core.platform.kinds.quotas import QuotaEntry

    return write.delete(session, "quotas", QuotaEntry.key_in(of.entity()._asdict()))
