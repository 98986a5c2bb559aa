"""The event loop's lateness, as it delays whatever has arrived."""

import asyncio
import time

from gateway.runtime.loop_lag import EVERY_S, LoopLag


def test_work_that_stops_the_loop_is_measured() -> None:
    lag = LoopLag()

    async def stopped() -> None:
        keeping = asyncio.create_task(lag.keep())
        await asyncio.sleep(0)
        time.sleep(EVERY_S + 0.3)  # noqa: ASYNC251 - blocks the loop on purpose
        await asyncio.sleep(0.05)
        keeping.cancel()

    asyncio.run(stopped())

    (family,) = lag.collect("")
    values = {(one.name, one.labels.get("le")): one.value for one in family.samples}
    assert values["loop_lag_seconds_count", None] == 1
    assert values["loop_lag_seconds_bucket", "0.25"] == 0
    assert values["loop_lag_seconds_sum", None] >= 0.3
