"""Changes by clients with Kafka's own tools that are not made in clusters: access rules on the platform, quotas,
deletions of moved topics, and the offsets below which clients deleted records.

The platform is called in threads of its own, a few at a time, so that a hanging platform blocks no other work.
An answer waits, for a short time, until the change is in force here, and with it at all gateways of the cache. The
platform has stored it by then, and it will be in force everywhere soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from gateway.composed.ask import Message
from gateway.composed.handlers import (
    OK,
    Change,
    ChangeQuotas,
    CreateRules,
    DeletedRules,
    DeleteMoved,
    DeleteRules,
    KeepDeleted,
    failed,
)
from gateway.config import ConfigError
from gateway.follow.quotas import FollowingQuotas
from gateway.process.deleted_records import DeletedRecordsWriter
from gateway.process.deleting_moved import DeletingMoved
from ha_core.platform.errors import PlatformAwayError, PlatformRefusedError
from ha_core.wire.codes import ErrorCode

if TYPE_CHECKING:
    from gateway.follow.platform.following import FollowingPlatform
    from ha_core.platform.remote_changes import HttpChanges

T = TypeVar("T")
AT_ONCE = 4
TURN_S = 10.0
"""How long a change waits for earlier ones."""
IN_FORCE_S = 3.0


class Changing:
    def __init__(
        self,
        platform: FollowingPlatform | None,
        quotas: FollowingQuotas,
        deletions: DeletingMoved,
        deleted: DeletedRecordsWriter,
    ) -> None:
        self._platform, self._quotas, self._deletions, self._deleted = platform, quotas, deletions, deleted
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._threads = ThreadPoolExecutor(AT_ONCE, "platform-changes")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._deleted.close()

    async def carry_out(self, wanted: Change) -> list[Message] | list[DeletedRules]:
        """The result of each change, in order."""
        match wanted:
            case ChangeQuotas():
                if self._platform is None or not self._platform.has_quotas:
                    return await self._limit_here(wanted)
                return await self._limit(wanted)
            case CreateRules():
                return await self._create(wanted)
            case DeleteRules():
                return await self._delete(wanted)
            case DeleteMoved():
                return await self._deletions.carry_out(wanted)
            case KeepDeleted():
                return await self._deleted.carry_out(wanted)

    async def _create(self, wanted: CreateRules) -> list[Message]:
        made = await self._on_platform(wanted.user, lambda there: there.create_rules(wanted.rules))
        if isinstance(made, dict):
            return [made for _ in wanted.rules]
        await self._in_force("rules", made.changed_us)
        return [OK if why is None else _refused(why) for why in made.refused]

    async def _delete(self, wanted: DeleteRules) -> list[DeletedRules]:
        made = await self._on_platform(wanted.user, lambda there: there.delete_rules(wanted.filters))
        if isinstance(made, dict):
            return [DeletedRules(made) for _ in wanted.filters]
        await self._in_force("rules", made.changed_us)
        return [DeletedRules(OK, rules) for rules in made.rules]

    async def _limit(self, wanted: ChangeQuotas) -> list[Message]:
        made = await self._on_platform(
            wanted.user, lambda there: there.change_quotas(wanted.changes, wanted.validate_only)
        )
        if isinstance(made, dict):
            return [made for _ in wanted.changes]
        if not wanted.validate_only:
            stand = [change for change, why in zip(wanted.changes, made.refused, strict=True) if why is None]
            await self._quotas.in_force(stand, IN_FORCE_S)
        return [OK if why is None else _refused(why) for why in made.refused]

    async def _limit_here(self, wanted: ChangeQuotas) -> list[Message]:
        """Writes quotas to ZooKeeper, one request at a time, in threads that nothing else needs."""
        working = await self._begin(lambda: self._quotas.change(wanted))
        if working is None:
            away = _away(f"earlier changes of quotas took all of {TURN_S:.0f} s; try again")
            return [away for _ in wanted.changes]
        return await asyncio.shield(working)

    async def _begin(self, work: Callable[[], T]) -> asyncio.Future[T] | None:
        """None: earlier changes have taken too long."""
        try:
            async with asyncio.timeout(TURN_S):
                await self._turns.acquire()
        except TimeoutError:
            return None
        working = asyncio.get_running_loop().run_in_executor(self._threads, work)
        # Released when the thread is free, even if the caller no longer waits.
        working.add_done_callback(lambda _: self._turns.release())
        return working

    async def _on_platform(self, user: str, change: Callable[[HttpChanges], T]) -> T | Message:
        """The platform's result, or the error."""
        platform = self._platform
        assert platform is not None  # without a platform clients are not offered changes of rules

        def work() -> T:
            from ha_core.platform.remote_changes import HttpChanges

            return change(HttpChanges(platform.line.client(), user))

        working = await self._begin(work)
        if working is None:
            return _away(f"the platform at {platform.url} answered no change for {TURN_S:.0f} s; try again")
        try:
            return await asyncio.shield(working)
        except PlatformRefusedError as error:
            return _refused(str(error))
        except (PlatformAwayError, ConfigError) as error:
            return _away(f"{error}. It is not known whether the change was made; you may repeat it")

    async def _in_force(self, kind: str, changed_us: int) -> None:
        if changed_us and self._platform is not None:
            await self._platform.in_force(kind, changed_us, IN_FORCE_S)


def _refused(why: str) -> Message:
    return failed(ErrorCode.INVALID_REQUEST, why)


def _away(why: str) -> Message:
    return failed(ErrorCode.REQUEST_TIMED_OUT, why)
