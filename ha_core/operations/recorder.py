"""The process that looks at all clusters on behalf of a gateway: `python -m ha_core.operations.recorder`.

The first line of standard input says what to do, and the end of standard input ends it, in the middle of a look too: so
it never outlives the gateway. Each round of looks is a line on standard output.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ha_core.kafka.errors import SecurityProfileError
from ha_core.kafka.security import profiles
from ha_core.operations.environment import Connection, connect
from ha_core.operations.last_seen import Look, record_always
from ha_core.store.errors import StoreError

NICE = 10
"""The event loop of the gateway comes first on a core that they share."""


def main() -> int:
    """Returns only when it cannot go on."""
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()
    os.nice(NICE)
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    told: dict[str, Any] = json.loads(line)
    connection = Connection(told["zookeeper"], told["root"], session_timeout_s=told["session_timeout_s"])
    try:
        with connect(connection, told["by"], profiles=profiles(told["profiles"], told["by"])) as environment:
            record_always(environment, told["every_s"], looked=_report)
    except (StoreError, SecurityProfileError) as error:
        logging.getLogger(__name__).error("nothing can be recorded: %s", error)  # noqa: TRY400 - told in words
        return 1


def _report(looks: Sequence[Look]) -> None:
    sys.stdout.write(json.dumps({"looks": [asdict(look) for look in looks]}) + "\n")
    sys.stdout.flush()


def _end_with_the_gateway() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
