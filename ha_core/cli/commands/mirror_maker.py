"""`mirror-maker`: run the flows of a MirrorMaker 2 configuration."""

import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError
from ha_core.metrics.http import HttpServer
from ha_core.mirror_maker.checks import check_live, chosen_flows, flows_of_workers, require
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.declared_flows import DeclaredFlows, declared_in
from ha_core.mirror_maker.flows_file import FlowsFile
from ha_core.mirror_maker.membership import FlowMembership, OnlyWorker, SharingWorker
from ha_core.mirror_maker.metrics import FlowMetrics
from ha_core.mirror_maker.worker import Worker
from ha_core.model import FlowWorker
from ha_core.model.shown import ShownFormatter
from ha_core.store.store import Store

log = logging.getLogger(__name__)

Targets = Annotated[
    list[str] | None,
    option("Run only flows into these clusters, which should be near this process.", "--clusters"),
]
MetricsPort = Annotated[int | None, option("Port for Prometheus. Default: none.")]
MetricsHost = Annotated[str, option("Address on which the metrics port listens.")]


@command("mirror-maker", "Run the flows of a MirrorMaker 2 configuration until the process is stopped.")
def run(
    session: CommandRun,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="mm2.properties, unchanged; then further values of --clusters."),
    ] = None,
    declared: Annotated[
        str | None,
        option("Follow this declaration instead of a file. Needs --zookeeper.", metavar="NAME"),
    ] = None,
    clusters: Targets = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    like_3_9: Annotated[bool, option("Use Kafka 3.9's defaults where 4.3 has others.", "--like-3.9")] = False,
    guard_remote_topics: Annotated[
        bool,
        option(
            "Make the targets' brokers deny all users except super users to write to remote topics. The flows' "
            "accounts must be super users.",
            "--guard-remote-topics",
        ),
    ] = False,
) -> CommandResult:
    log_to_stderr()
    more = list(words or ())
    file = more.pop(0) if more and declared is None else None
    if (file is None) == (declared is None):
        raise FlowError("Give either FILE or --declared")
    if declared is not None and like_3_9:
        raise FlowError("--like-3.9 is part of the declaration: give it to `switchyard flows declare`")
    if more and not clusters:
        raise FlowError(f"{more[0]} is one argument too many: give one FILE")
    # connect-mirror-maker.sh accepts several values after one flag.
    targets = [alias for part in (*(clusters or ()), *more) for alias in part.replace(",", " ").split()]
    name = declared_in(declared) if declared is not None else str(file)
    with ExitStack() as opened:
        session.found_state()
        connects = session.connects
        if connects is None and declared is not None:
            raise FlowError("--declared needs --zookeeper, where the declaration is stored")
        store = connects() if connects is not None else None
        if store is not None:
            opened.callback(store.close)
        read = FlowsFile(Path(name), like_3_9).read
        if declared is not None:
            assert store is not None
            read = DeclaredFlows(store, declared).read
        run_worker(opened, read, name, store, targets, metrics_port, metrics_host, guard_remote_topics)
    return CommandResult({"ended": True})


def run_worker(
    opened: ExitStack,
    read: Callable[[], Configuration],
    name: str,
    store: Store | None,
    targets: Sequence[str],
    metrics_port: int | None,
    metrics_host: str,
    guards: bool = False,
) -> None:
    """Run flows until SIGTERM or SIGINT.

    :param opened: the caller closes it afterwards.
    :param read: reads the current configuration.
    :param name: name of the configuration, for errors and for `flows status`.
    :param store: None: this worker is the only one.
    :param targets: run only flows into these clusters; empty: all.
    :param guards: whether brokers deny other writers of remote topics.
    :raises FlowError: the configuration cannot be used.
    """
    found = read()
    chosen = chosen_flows(found, targets)
    ours = set[str]() if store is None else flows_of_workers(store.flow_workers())
    checked = check_live(found, FlowClusters(found.clusters, name), chosen, ours, shared=store is not None)
    for remark in require(checked, name):
        log.warning("%s", remark.text)
    membership: FlowMembership = OnlyWorker()
    if store is not None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        this = FlowWorker(id=uuid.uuid4().hex, host=socket.gethostname(), pid=os.getpid(), since=now, file=name)
        membership = opened.enter_context(SharingWorker(store, this))
    worker = Worker(read, membership, targets, guards)
    if metrics_port is not None:
        server = HttpServer(metrics_host, metrics_port, FlowMetrics(worker.flows).render, tuple, "--metrics-port")
        try:
            server.start()
        except OSError as error:
            raise FlowError(f"Metrics cannot be served: {error}") from None
        opened.callback(server.stop)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    worker.run()


def log_to_stderr() -> None:
    """Log to standard error, with the time of each line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ShownFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
