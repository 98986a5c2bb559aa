"""Start and end of a process that works on behalf of a gateway.

The first line of its standard input has its task. The end of standard input ends it at once, so that it never outlives
the gateway. It reports in lines of JSON on standard output.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ha_core.kafka.errors import SecurityProfileError
from ha_core.kafka.security import profiles
from ha_core.model.shown import ShownFormatter
from ha_core.operations.engine.environment import DEFAULT_SESSION_TIMEOUT_S, Environment, EnvironmentSettings, connect
from ha_core.store.errors import StoreError
from ha_core.store.security import parse


def serve(work: Callable[[Environment, dict[str, Any]], None], failure: str) -> int:
    """Run `work` with the gateway's message; returns only when it cannot continue.

    :param failure: the text to log then.
    """
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ShownFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    message: dict[str, Any] = json.loads(line)
    timeout_s = message.get("session_timeout_s", DEFAULT_SESSION_TIMEOUT_S)
    try:
        security = parse(message["zookeeper_security"], message["by"], Path())
    except StoreError as error:
        logging.getLogger(__name__).error("%s: %s", failure, error)  # noqa: TRY400 - the text suffices
        return 1
    connection = EnvironmentSettings(
        message["zookeeper"], message["root"], session_timeout_s=timeout_s, zookeeper_security=security
    )
    try:
        with connect(connection, message["by"], profiles=profiles(message["profiles"], message["by"])) as environment:
            work(environment, message)
    except (StoreError, SecurityProfileError) as error:
        logging.getLogger(__name__).error("%s: %s", failure, error)  # noqa: TRY400 - the text suffices
    return 1


_saying = threading.Lock()


def say(**fields: Any) -> None:
    """One line for the gateway. Any thread may say one."""
    with _saying:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


def _end_with_the_gateway() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)
