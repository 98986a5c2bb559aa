"""`kafka-mirror-maker`: run one flow by the options of MirrorMaker 1's script."""

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.cli.commands.mirror_maker import MetricsHost, MetricsPort, log_to_stderr, run_worker
from ha_core.mirror_maker.mirror_maker_1_files import MirrorMaker1Files

log = logging.getLogger(__name__)


@command("kafka-mirror-maker", "Run one flow by the options of MirrorMaker 1 until the process is stopped.")
def run(
    session: CommandRun,
    consumer_config: Annotated[Path, option("The consumer's properties, for the source.", "--consumer.config")],
    producer_config: Annotated[Path, option("The producer's properties, for the target.", "--producer.config")],
    include: Annotated[
        str,
        option(
            "Java pattern of the topics; several separated by commas.", "--include", "--whitelist", metavar="PATTERN"
        ),
    ],
    num_streams: Annotated[str | None, option("Without effect.", "--num.streams", metavar="N")] = None,
    new_consumer: Annotated[bool, option("Without effect.", "--new.consumer")] = False,
    commit_interval: Annotated[str | None, option("Without effect.", "--offset.commit.interval.ms")] = None,
    abort: Annotated[str | None, option("Without effect: no record is skipped.", "--abort.on.send.failure")] = None,
    handler: Annotated[str | None, option("Refused: it may change records.", "--message.handler")] = None,
    handler_args: Annotated[str | None, option("Refused, like --message.handler.", "--message.handler.args")] = None,
    listener: Annotated[str | None, option("Refused: it is a Java class.", "--consumer.rebalance.listener")] = None,
    listener_args: Annotated[str | None, option("Refused, like its listener.", "--rebalance.listener.args")] = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
) -> CommandResult:
    log_to_stderr()
    given = {
        "num.streams": num_streams,
        "new.consumer": "" if new_consumer else None,
        "offset.commit.interval.ms": commit_interval,
        "abort.on.send.failure": abort,
        "message.handler": handler,
        "message.handler.args": handler_args,
        "consumer.rebalance.listener": listener,
        "rebalance.listener.args": listener_args,
    }
    others = {name: value for name, value in given.items() if value is not None}
    files = MirrorMaker1Files(consumer_config, producer_config, include, others)
    for remark in files.mapped().remarks:
        log.warning("%s", remark.text)
    with ExitStack() as opened:
        session.found_state()
        store = None if (connects := session.connects) is None else connects()
        if store is not None:
            opened.callback(store.close)
        run_worker(opened, files.read, files.name, store, (), metrics_port, metrics_host)
    return CommandResult({"ended": True})
