"""`python -m gateway --config FILE [--check]`."""

import argparse
import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Sequence

import uvloop

from gateway.config import Config, ConfigError, load, open_passwords, read
from gateway.process.audit import LOGGER
from gateway.process.gateway import Gateway
from gateway.process.metrics import GatewayMetrics
from gateway.process.operator_pages import pages
from gateway.process.workers import lifeline, worker_queries
from gateway.process.workers.parent import Parent
from gateway.process.workers.ports import inherited
from gateway.runtime import gc_policy
from gateway.runtime.offload import SWITCH_S
from ha_core.datacache.core.errors import DataCacheError
from ha_core.metrics.http import HttpServer
from ha_core.metrics.process import own_version
from ha_core.model.shown import ShownFormatter
from ha_core.store.errors import StoreError
from ha_core.store.security import OPEN_WARNING
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect

_log = logging.getLogger("gateway")

RETRY_S = 1.0


def main() -> int:
    """Runs until SIGTERM or SIGINT. Exit code 2: the configuration is wrong, and nothing was started."""
    parser = argparse.ArgumentParser(prog="python -m gateway", description="Kafka-protocol gateway of Switchyard.")
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML configuration")
    parser.add_argument("--check", action="store_true", help="check the configuration and end")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)  # the parent of workers sets these three
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--listeners", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None and not lifeline.die_with(options.parent):
        return 1
    try:
        # A worker started at any time has the file's text of the parent's start.
        text = read(options.config) if options.worker is None else sys.stdin.buffer.read().decode()
        config = load(options.config, text)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    unsafe = open_passwords(config)
    if options.check:
        if config.zookeeper.security.open:
            print(f"warning: {OPEN_WARNING}", file=sys.stderr)
        if unsafe is not None:
            print(f"{options.config}: {unsafe}", file=sys.stderr)
            return 2
        several = f", {config.workers} workers" if config.workers > 1 else ""
        print(f"{options.config}: good; gateway {config.id} on {config.listen.host}:{config.listen.port}{several}")
        return 0
    if options.worker is not None:
        config = config.as_worker(options.worker)
    name = f" {config.id}" if config.worker_of else ""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ShownFormatter(f"%(asctime)s %(levelname)s{name} %(name)s %(message)s"))
    logging.basicConfig(level=config.log.level.upper(), handlers=[handler])
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    _audit_apart()
    if unsafe is not None and not options.worker:
        # A warning, not an error: fleets configured so before this check must start after an update.
        _log.warning("passwords of clients can be listened to: %s", unsafe)
    if config.workers > 1 and not config.worker_of:
        return asyncio.run(Parent(config, (sys.executable, "-m", "gateway", "--config", options.config), text).run())
    sys.setswitchinterval(SWITCH_S)
    gc_policy.exempt_old_objects()
    return uvloop.run(_serve(config, [inherited(int(number)) for number in filter(None, options.listeners.split(","))]))


def _audit_apart() -> None:
    """Makes each line of the audit log JSON and nothing else."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False


async def _serve(config: Config, shared: Sequence[socket.socket]) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    state = await _connected(config, stopping)
    if state is None:
        return 0
    gateway = Gateway(config, state, own_version(), shared)
    # A worker's page is for its parent alone, which merges them.
    at = (worker_queries.LOOPBACK, 0) if config.worker_of else (config.http.host, config.http.port)
    more = pages(gateway, config.http)
    http = HttpServer(*at, GatewayMetrics(gateway).render, lambda: gateway.unready, "http.port", more)
    try:
        port = http.start()
        if config.worker_of:
            lifeline.report(lifeline.WorkerState(port))
        starting = loop.create_task(gateway.start())
        stop = loop.create_task(stopping.wait())
        await asyncio.wait({starting, stop}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            if config.worker_of:
                lifeline.report(lifeline.WorkerState(port, serving=True))
        else:
            starting.cancel()
        broken = loop.create_task(gateway.failed.wait())
        await asyncio.wait({stop, broken}, return_when=asyncio.FIRST_COMPLETED)
        if gateway.failed.is_set():
            return 1
    except (StoreError, DataCacheError, OSError) as error:
        _log.error("cannot start: %s", error)
        return 1
    finally:
        http.stop()
        await gateway.stop(told_to=stopping.is_set())
    return 0


async def _connected(config: Config, stopping: asyncio.Event) -> Store | None:
    zookeeper = config.zookeeper
    while not stopping.is_set():
        try:
            return await asyncio.to_thread(
                connect,
                zookeeper.hosts,
                zookeeper.root,
                session_timeout_s=zookeeper.session_timeout_ms / 1000,
                security=zookeeper.security,
            )
        except StoreError as error:
            _log.warning("waiting for ZooKeeper: %s", error)
            await asyncio.sleep(RETRY_S)
    return None


if __name__ == "__main__":
    sys.exit(main())
