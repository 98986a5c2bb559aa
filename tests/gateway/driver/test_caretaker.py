"""Which gateways take care of operations that their executors left behind, and what they are told of it."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from gateway.driver.caretaker import Caretaker, elected
from ha_core.model import GatewayRecord


def gateway(name: str, able: bool = True) -> GatewayRecord:
    return GatewayRecord(id=name, host="h", port=1, node_id=1, takes_care=able)


@pytest.mark.parametrize(
    ("records", "who"),
    [
        ([], ()),
        ([gateway("gw-3"), gateway("gw-2"), gateway("gw-1")], ("gw-1", "gw-2")),
        ([gateway("gw-1", able=False), gateway("gw-2")], ("gw-2",)),
    ],
)
def test_the_first_two_live_gateways_that_can_take_care_do(records: list[GatewayRecord], who: tuple[str, ...]) -> None:
    assert elected(records) == who


def test_what_came_of_an_operation_is_in_the_gateways_log_and_silence_ends_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    says = "import json, time; print('{}'); print(json.dumps({'operation': 'op-1', 'outcome': 'undone'}), flush=True)"
    changes: list[bool] = []

    async def scene() -> None:
        command = (sys.executable, "-S", "-c", f"{says}; time.sleep(60)")
        taker = Caretaker(b"{}\n", lambda: changes.append(taker.able), command, first_pause_s=0.01, silent_s=0.3)
        kept = asyncio.create_task(taker.keep())
        taker.want(True)
        deadline = time.monotonic() + 20
        while len(changes) < 2:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        kept.cancel()
        await asyncio.gather(kept, return_exceptions=True)

    asyncio.run(scene())

    assert "operation op-1 was left behind by its executor: undone" in caplog.text
    assert "it has said nothing for 0.3 s" in caplog.text
    assert changes[:2] == [False, True]
