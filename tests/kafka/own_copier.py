"""A copier in a process of its own, which a test can kill. Its standard input is one line of JSON (`Order`)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.model import Cluster
from ha_core.model.isolation import Isolation
from ha_core.wire.sasl import SecurityProfile


class Order(NamedTuple):
    """
    :ivar source: name and bootstrap address; likewise `target`.
    :ivar account: SASL mechanism, user and password of both.
    :ivar copies: copies of flows, which all begin at 0.
    """

    source: tuple[str, str]
    target: tuple[str, str]
    account: tuple[str, str, str]
    copies: list[CopyPartition]
    isolation: Isolation = Isolation.COMMITTED
    passes_overtaken: bool = False

    def text(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def of(cls, text: str) -> Order:
        found = json.loads(text)
        copies = [CopyPartition(CopyId(*id_), tuple(log), source) for id_, log, source in found["copies"]]
        return cls(**found | {"copies": copies, "isolation": Isolation(found["isolation"])})


@contextmanager
def own_copier(order: Order) -> Iterator[subprocess.Popen[str]]:
    """The process; it is killed at the end if it is still there."""
    process = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    try:
        process.stdin.write(f"{order.text()}\n")
        process.stdin.flush()
        yield process
    finally:
        process.kill()
        process.wait(30)
        process.stdin.close()


def main() -> None:
    order = Order.of(sys.stdin.readline())
    account = SecurityProfile(*order.account)
    clusters = [Cluster(name=name, bootstrap=bootstrap) for name, bootstrap in (order.source, order.target)]
    with Admin(clusters[0], account, timeout_s=20) as source, Admin(clusters[1], account, timeout_s=20) as target:
        Copying(
            source,
            target,
            order.copies,
            {copy.source_key: 0 for copy in order.copies},
            isolation=order.isolation,
            passes_overtaken=order.passes_overtaken,
        ).run()


if __name__ == "__main__":
    main()
