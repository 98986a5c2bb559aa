"""Follows the file of access rules: another one is in force a second or two after it was written.

What cannot be read changes nothing: the rules that were read last stay in force, and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from gateway.config import ConfigError, read_rules
from gateway.driver.settled_file import LOOK_S, SettledFile
from gateway.rules_file import RulesFile
from ha_core.plan.rights import Rights

_log = logging.getLogger(__name__)


class FollowingRules:
    """:ivar unreadable: why the file as it is now is not in force; empty when it is."""

    def __init__(self, file: Path, rules: RulesFile, told: Callable[[Rights], None]) -> None:
        """:param rules: what the file had at the start.
        :param told: is given the rights of each other version, on the event loop.
        """
        self.file = file
        self.unreadable = ""
        self._told = told
        self._in_force = rules
        self.rights = Rights(rules.users, rules.rules)
        self._settled = SettledFile(file)

    async def keep(self) -> None:
        """For ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        try:
            if not await self._settled.changed():
                return
            rules = await asyncio.to_thread(read_rules, self.file)
        except OSError as error:
            self._complain(f"{self.file}: {error.strerror}; the rules that were read last stay in force")
            return
        except ConfigError as error:
            self._complain(f"{error}\nthe rules that were read last stay in force")
            return
        self.unreadable = ""
        if rules != self._in_force:
            self.rights = await asyncio.to_thread(self._changed, rules)
            self._in_force = rules
            _log.info("%s: %d access rules are in force", self.file, len(self.rights))
            self._told(self.rights)

    def _changed(self, rules: RulesFile) -> Rights:
        before = self._in_force
        users = {user.name: None for user in before.users} | {user.name: user for user in rules.users}
        return self.rights.changed(users, rules.rules - before.rules, before.rules - rules.rules)

    def _complain(self, why: str) -> None:
        if why != self.unreadable:
            _log.warning("access rules: %s", why)
        self.unreadable = why
