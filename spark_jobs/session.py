"""The Spark session of a job: on the cluster of spark-submit, on this machine, or on a Spark Connect server.

No Spark setting is made here, not even the application's name: in code it would override the settings of the cluster's
operator. So executors are told from outside where to find this project (`docs/deploying.md`).
"""

import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from spark_jobs.driver_watchdog import SparkGoneError, end

log = logging.getLogger(__name__)
WAIT_S = 60.0
"""How long to wait for a Spark Connect server that does not answer."""
_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 8.0
_CONNECT_S = 5.0
_PORT = 15002
_TRIES: Mapping[str, Any] = {"max_retries": 8, "max_backoff": 10_000}
"""Retries of a request over a lost connection: about 45 s. Spark's client by default retries silently for ten
minutes."""


class SparkConnectError(Exception):
    """A Spark Connect server is unreachable, or has lost the session."""

    def __init__(self, remote: str, why: str) -> None:
        super().__init__(
            f"the Spark Connect server at {remote} {why}. Start it, or give the address of one that runs with "
            "--remote; without --remote the job runs where spark-submit says, or on this machine."
        )


@contextmanager
def open_session(remote: str | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block.

    :param remote: the address of a Spark Connect server, `sc://host:port`, whose own Python must have this project.
    :raises SparkConnectError: it does not answer, or it goes away before the block ends.
    """
    # Executors must run this very Python: by default Spark takes the first python3 on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not remote:
        session = SparkSession.builder.getOrCreate()
        gone = False
        try:
            yield session
        except SparkGoneError:
            gone = True
            raise
        finally:
            end(session, gone)
        return
    _wait_for(remote)
    with naming(remote):
        # Not an earlier session, which a restarted server does not know.
        connected: Any = SparkSession.builder.remote(remote).create()
        from pyspark.sql.connect.client.retries import DefaultPolicy

        connected.client.set_retry_policies([DefaultPolicy(**_TRIES)])
        try:
            yield connected
        finally:
            if not listens(remote):
                connected.client.set_retry_policies([DefaultPolicy(max_retries=0)])  # the server is gone
            connected.stop()


@contextmanager
def naming(remote: str | None) -> Iterator[None]:
    """Turns errors of a lost server into one that names it; other errors are unchanged.

    :raises SparkConnectError: instead of Spark's error.
    """
    try:
        yield
    except Exception as error:
        if not remote or isinstance(error, SparkConnectError) or (why := _lost(remote, error)) is None:
            raise
        raise SparkConnectError(remote, why) from error


def _wait_for(remote: str) -> None:
    """:raises SparkConnectError: no answer within `WAIT_S`, or not an address."""
    until, pause_s = time.monotonic() + WAIT_S, _PAUSE_S
    while not listens(remote):
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise SparkConnectError(remote, f"has not answered for {WAIT_S:.0f} s")
        log.warning("the Spark Connect server at %s does not answer: waiting, %.0f s more at most", remote, left_s)
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def listens(remote: str) -> bool:
    """:raises SparkConnectError: not an address."""
    try:
        parts = urlsplit(remote)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError as error:
        raise SparkConnectError(remote, f"cannot be reached: {error}, and sc://HOST:PORT is expected") from None
    if parts.scheme != "sc" or not host:
        raise SparkConnectError(remote, "cannot be reached: sc://HOST:PORT is expected")
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError:
        return False
    return True


def _lost(remote: str, error: Exception) -> str | None:
    """Why a server has become useless; None: it is not to blame."""
    import grpc
    from pyspark.errors import PySparkAssertionError
    from pyspark.errors.exceptions.connect import SparkConnectException

    if not isinstance(error, grpc.RpcError | SparkConnectException | PySparkAssertionError):
        return None
    if not listens(remote):
        return "does not answer any more"
    # The client asserts this when another session has answered than it had opened.
    known = isinstance(error, grpc.RpcError | PySparkAssertionError)
    if known or "INVALID_HANDLE" in str(error) or "UNAVAILABLE" in str(error):
        return "has lost the session, as after a restart"
    return None
