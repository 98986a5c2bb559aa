"""`mirror-maker`: runs the flows of a MirrorMaker 2 configuration."""

import logging
import os
import signal
import socket
import sys
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.flows.errors import FlowError
from ha_core.mirror_maker.checks import check_live, require
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.flows_file import FlowsFile
from ha_core.mirror_maker.membership import FlowMembership, OnlyWorker, SharingWorker
from ha_core.mirror_maker.worker import Worker
from ha_core.model import FlowWorker
from ha_core.model.shown import ShownFormatter

log = logging.getLogger(__name__)
File = Annotated[Path, typer.Argument(metavar="FILE", help="mm2.properties, unchanged.")]


@command("mirror-maker", "Run the flows of a MirrorMaker 2 configuration until it is stopped.")
def run(
    session: CommandRun,
    file: File,
    clusters: Annotated[
        list[str] | None, option("Only flows into these clusters: those that are near this process.", "--clusters")
    ] = None,
    like_3_9: Annotated[bool, option("Use Kafka 3.9's defaults where 4.3 has others.", "--like-3.9")] = False,
    guard_remote_topics: Annotated[
        bool,
        option(
            "Deny everybody at the targets' brokers to write to remote topics. Needs super users.",
            "--guard-remote-topics",
        ),
    ] = False,
) -> CommandResult:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ShownFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    followed = FlowsFile(file, like_3_9)
    found = followed.read()
    targets = [alias for part in clusters or () for alias in part.replace(",", " ").split()]
    if unknown := [alias for alias in targets if alias not in {cluster.alias for cluster in found.clusters}]:
        known = ", ".join(cluster.alias for cluster in found.clusters)
        raise FlowError(f"--clusters {unknown[0]} is none of the file's clusters: {known}")
    chosen = [flow for flow in found.flows if not targets or flow.target in targets]
    with ExitStack() as opened:
        membership: FlowMembership = OnlyWorker()
        session.found_state()
        if (connects := session.connects) is not None:
            store = connects()
            opened.callback(store.close)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            worker_id = uuid.uuid4().hex
            this = FlowWorker(id=worker_id, host=socket.gethostname(), pid=os.getpid(), since=now, file=str(file))
            membership = opened.enter_context(SharingWorker(store, this))
        else:
            for remark in require(check_live(found, FlowClusters(found.clusters), chosen), str(file)):
                log.warning("%s", remark.text)
        worker = Worker(followed.read, membership, targets, guard_remote_topics)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop())
        worker.run()
    return CommandResult({"ended": True})
