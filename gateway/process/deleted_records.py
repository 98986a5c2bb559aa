"""Writes the offsets below which clients have deleted records to ZooKeeper, before the clients are answered."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from gateway.composed.ask import Message
from gateway.composed.handlers import OK, DeletedBelow, KeepDeleted, failed
from ha_core.model import Topic, UnreadableDocumentError
from ha_core.store.errors import StoreError
from ha_core.wire.codes import ErrorCode

AT_ONCE = 4
"""Topics that are written at once; others wait."""
TURN_S = 10.0


class Keeps(Protocol):
    """The part of the store that is needed here."""

    def keep_deleted(self, topic: Topic, below: Mapping[int, int]) -> None: ...


class DeletedRecordsWriter:
    def __init__(self, store: Keeps) -> None:
        self._store = store
        self._turns = asyncio.Semaphore(AT_ONCE)
        # Own threads: they hang while ZooKeeper does, and the shared ones confirm the lease.
        self._threads = ThreadPoolExecutor(AT_ONCE, "deleted-records")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def carry_out(self, wanted: KeepDeleted) -> list[Message]:
        """Returns a result for each topic, in order."""
        return list(await asyncio.gather(*map(self._keep, wanted.topics)))

    async def _keep(self, deleted: DeletedBelow) -> Message:
        try:
            async with asyncio.timeout(TURN_S):
                await self._turns.acquire()
        except TimeoutError:
            return _away(f"writes for other topics took all of {TURN_S:.0f} s; ask again")
        try:
            write = partial(self._store.keep_deleted, deleted.topic, deleted.below)
            await asyncio.get_running_loop().run_in_executor(self._threads, write)
        except (StoreError, UnreadableDocumentError) as error:
            return _away(str(error))
        finally:
            self._turns.release()
        return OK


def _away(why: str) -> Message:
    return failed(ErrorCode.LEADER_NOT_AVAILABLE, why)
