"""Election of the gateways that recover orphans, and their helper process."""

import asyncio
import time

import pytest

from gateway.config import Config
from gateway.process.helper_processes import OrphanRecoveryProcess
from ha_core.model import GatewayRecord


def gateway(name: str, able: bool = True, worker_of: str = "") -> GatewayRecord:
    return GatewayRecord(id=name, worker_of=worker_of, host="h", port=1, node_id=1, takes_care=able)


@pytest.mark.parametrize(
    ("records", "who"),
    [
        ([], []),
        ([gateway("gw-3"), gateway("gw-2"), gateway("gw-1")], ["gw-1", "gw-2"]),
        ([gateway("gw-1", able=False), gateway("gw-2")], ["gw-2"]),
        # Two workers of one gateway would die together.
        ([gateway("gw-1.0", True, "gw-1"), gateway("gw-1.1", True, "gw-1"), gateway("gw-2")], ["gw-1.0", "gw-2"]),
    ],
)
def test_the_first_two_live_gateways_that_can_take_care_do(records: list[GatewayRecord], who: list[str]) -> None:
    assert OrphanRecoveryProcess.elected(records) == who


async def test_recovered_operations_are_logged_and_a_silent_process_is_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = "operation op-1 was recovered after its executor died: undone"
    changes: list[bool] = []
    # A shell is there within its time on a busy machine too; where it was not, the next one is.
    command = ("/bin/sh", "-c", """echo '{}'; echo '{"operation": "op-1", "outcome": "undone"}'; exec sleep 60""")
    config = Config.model_validate(
        {"id": "gw-1", "zookeeper": {"hosts": "zk:2181"}, "authentication": {"anonymous": True}}
    )
    taker = OrphanRecoveryProcess(config, lambda: changes.append(taker.able))
    taker.command, taker.first_pause_s, taker.silent_s = command, 0.01, 0.3
    kept = asyncio.create_task(taker.keep())
    taker.want(True)
    deadline = time.monotonic() + 20
    while len(changes) < 2 or said not in caplog.text:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    kept.cancel()
    await asyncio.gather(kept, return_exceptions=True)
    assert "no output for 0.3 s" in caplog.text
    assert changes[:2] == [False, True]
