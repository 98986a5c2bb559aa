"""The process that takes care of operations on behalf of a gateway: `python -m ha_core.operations.caretaker`.

The first line of standard input says what to do, and the end of standard input ends it, in the middle of a step too,
which is taken up by the next one. Each line of standard output says what came of an operation, or that it still looks.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ha_core.kafka.errors import SecurityProfileError
from ha_core.kafka.security import profiles
from ha_core.operations import engine
from ha_core.operations.caretaking import Caretaking
from ha_core.operations.environment import Connection, Environment, connect
from ha_core.store.errors import StoreError

EVERY_S = 0.4
SAY_EVERY_S = 10.0
AT_ONCE = 4
"""Operations that are brought to their end side by side: one may wait for a gateway or for a cluster."""
_log = logging.getLogger(__name__)


def main() -> int:
    """Returns only when it cannot go on."""
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    told: dict[str, Any] = json.loads(line)
    connection = Connection(told["zookeeper"], told["root"])
    try:
        with connect(connection, told["by"], profiles=profiles(told["profiles"], told["by"])) as environment:
            take_care_always(environment)
    except (StoreError, SecurityProfileError) as error:
        _log.error("nobody is taken care of: %s", error)
    return 1


def take_care_always(environment: Environment) -> None:
    """Look for ever; ZooKeeper may be away for a while."""
    caretaking = Caretaking(environment)
    busy: dict[str, Future[str]] = {}
    said_at = float("-inf")
    with ThreadPoolExecutor(AT_ONCE, "care") as pool:
        while True:
            try:
                due = caretaking.look()
            except StoreError as error:
                _log.warning("not looked: %s", error)
                due = ()
            for name in due:
                if name not in busy:
                    busy[name] = pool.submit(caretaking.resume, name, engine.resume)
            for name in [name for name, work in busy.items() if work.done()]:
                _say(operation=name, outcome=_outcome(busy.pop(name)))
            if time.monotonic() - said_at >= SAY_EVERY_S:
                said_at = time.monotonic()
                _say()
            time.sleep(EVERY_S)


def _outcome(work: Future[str]) -> str:
    error = work.exception()
    return work.result() if error is None else f"cannot be brought to its end: {error!r}"


def _say(**fields: str) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _end_with_the_gateway() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
