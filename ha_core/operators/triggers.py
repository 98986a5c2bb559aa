"""Waiting without a worker, in the triggerer."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from ha_core.hooks.zookeeper import SwitchyardHook


class CrossingTrigger(BaseTrigger):  # type: ignore[misc]  # airflow is not typed here
    """Fires if a worker has to act on crossings, or if there is nothing left to wait for. Changes nothing.

    If ZooKeeper or a cluster does not answer, it is asked again after the pause.

    :param pause_s: before each check, the first one too: a worker has just checked.
    """

    def __init__(self, zookeeper_conn_id: str, operation_ids: Sequence[str], pause_s: float) -> None:
        super().__init__()
        self.zookeeper_conn_id = zookeeper_conn_id
        self.operation_ids = list(operation_ids)
        self.pause_s = pause_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        arguments = {name: getattr(self, name) for name in ("zookeeper_conn_id", "operation_ids", "pause_s")}
        return f"{__name__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            await asyncio.sleep(self.pause_s)
            try:
                due = await asyncio.to_thread(self._due)
            except Exception as error:
                self.log.warning("%s cannot be checked now: %s", ", ".join(self.operation_ids), error)
            else:
                if due:
                    yield TriggerEvent({"due": True})
                    return

    def _due(self) -> bool:
        from ha_core.operations.running.settling import anything_due

        with SwitchyardHook(self.zookeeper_conn_id).get_conn("airflow:trigger") as environment:
            return anything_due(environment, self.operation_ids)
