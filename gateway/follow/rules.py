"""Follows the file of access rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from gateway.config import read_rules
from gateway.config.rules_file import RulesFile
from gateway.follow.followed_file import FollowedFile
from ha_core.plan.access.rights import Rights


class FollowingRules(FollowedFile[RulesFile]):
    def __init__(self, file: Path, rules: RulesFile, on_change: Callable[[Rights], None]) -> None:
        """:param on_change: called with the rights of each new version, on the event loop."""
        super().__init__(file, rules, read_rules)
        self.rights = Rights(rules.users, rules.rules)
        self._on_change = on_change

    async def _follow(self, before: RulesFile, content: RulesFile) -> str:
        self.rights = await asyncio.to_thread(self._changed, before, content)
        self._on_change(self.rights)
        return f"{len(self.rights)} access rules are in force"

    def _changed(self, before: RulesFile, now: RulesFile) -> Rights:
        users = {user.name: None for user in before.users} | {user.name: user for user in now.users}
        return self.rights.changed(users, now.rules - before.rules, before.rules - now.rules)
