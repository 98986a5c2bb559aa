"""Waits until clients make progress, and until a copy has hardly any lag."""

import time
from collections.abc import Sequence

from bench.ground import BenchError
from ha_core.store.store import Store
from stack.clients.process import ClientProcess

GO_ON = 50
PATIENCE_S = 180.0


def go_on(clients: Sequence[ClientProcess]) -> None:
    """Wait until each client has made progress."""
    whats = ["acknowledged" if client.kind.endswith("producer") else "delivered" for client in clients]
    wanted = [client.count(what) + GO_ON for client, what in zip(clients, whats, strict=True)]
    for client, count, what in zip(clients, wanted, whats, strict=True):
        client.wait_for(count, what, PATIENCE_S)


def mirrored(store: Store, topic: str, target: str, partitions: int, records_s: float) -> None:
    """Wait until each copy lacks less than a second of what its clients write.

    :raises BenchError: it does not get there.
    """
    until = time.monotonic() + PATIENCE_S
    while True:
        reports = [partition for report in store.mirror_reports().values() for partition in report.partitions]
        found = [report for report in reports if report.mirror == f"{topic}@{target}"]
        if len(found) == partitions and all(
            report.state == "copying" and report.within(int(records_s)) for report in found
        ):
            return
        if time.monotonic() > until:
            raise BenchError(f"{topic} is not mirrored to {target} after {PATIENCE_S:.0f} s: {found}")
        time.sleep(0.2)
