"""MirrorMaker 2 in dedicated mode: the peer of the mirror.

Its jars are those of the stack's Kafka, so nothing is fetched for it. Benchmarks give the source a new name at each
start, so its copy, offsets and syncs are separate from those of earlier starts.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bench.copiers import Program, program
from stack.jars import class_path, kafka_jars
from stack.java import find_java
from stack.zookeeper_part import LOG4J1, LOG4J2

VERSION = "4.3.1"
_GC = "-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent"
_HEAP = "-Xms256m -Xmx2g"
"""Both from `connect-mirror-maker.sh`."""


@dataclass(frozen=True)
class MirrorMakerSettings:
    """`properties` are those of the file, with `{source}` for the name of the source.

    :ivar java: flags of the JVM.
    :ivar patience_s: time for a graceful end before it is killed.
    """

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    java: str = f"{_HEAP} {_GC}"
    version: str = VERSION
    patience_s: float = 0.0


_ONE_BROKER = {
    "replication.factor": "1",
    **{f"{one}.topic.replication.factor": "1" for one in ("checkpoints", "heartbeats", "offset-syncs")},
    **{f"{one}.storage.replication.factor": "1" for one in ("offset", "status", "config")},
}
DEFAULTS = MirrorMakerSettings("MirrorMaker 2, defaults")


def tuned(partitions: int, codec: str) -> MirrorMakerSettings:
    """Tuned by judgement, not by a search: a task per partition, large fetches and batches, the source's codec, and
    only copying."""
    properties = {
        "tasks.max": str(partitions),
        "emit.heartbeats.enabled": "false",
        "{source}.consumer.max.poll.records": "20000",
        "{source}.consumer.fetch.max.bytes": str(64 << 20),
        "{source}.consumer.max.partition.fetch.bytes": str(8 << 20),
        "{source}.consumer.receive.buffer.bytes": "-1",
        "{source}.consumer.check.crcs": "false",
        "west.producer.batch.size": str(1 << 20),
        "west.producer.linger.ms": "5",
        "west.producer.buffer.memory": str(256 << 20),
        "west.producer.max.request.size": str(8 << 20),
        "west.producer.max.in.flight.requests.per.connection": "5",
        "west.producer.enable.idempotence": "true",
        "west.producer.compression.type": codec,
        "west.producer.send.buffer.bytes": "-1",
    }
    return MirrorMakerSettings("MirrorMaker 2, tuned", properties, "-Xms2g -Xmx2g -XX:+UseParallelGC")


def mirror_maker(
    settings: MirrorMakerSettings, alias: str, source: str, target: str, topic: str, folder: Path
) -> AbstractContextManager[Program]:
    """Copies a topic to `alias.topic` in the target.

    :param alias: the source's name.
    :param folder: for the files of this start.
    """
    properties = {
        "clusters": f"{alias}, west",
        f"{alias}.bootstrap.servers": source,
        "west.bootstrap.servers": target,
        f"{alias}->west.enabled": "true",
        f"{alias}->west.topics": topic,
        f"west->{alias}.enabled": "false",
        **{key.replace("{source}", alias): value for key, value in settings.properties.items()},
    }
    return mirror_maker_of(settings, properties, folder / alias)


def mirror_maker_of(
    settings: MirrorMakerSettings, properties: Mapping[str, str], home: Path
) -> AbstractContextManager[Program]:
    """Runs the flows of these properties, between clusters of one broker each.

    :param home: a new folder.
    """
    properties = {**_ONE_BROKER, **properties}
    home.mkdir()
    (home / "mm2.properties").write_text("".join(f"{key} = {value}\n" for key, value in properties.items()), "utf-8")
    (home / "log4j2.properties").write_text(LOG4J2, "utf-8")
    (home / "log4j.properties").write_text(LOG4J1, "utf-8")
    java = find_java()
    command = (
        java.binary,
        *settings.java.split(),
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
        f"-Dlog4j.configuration=file:{home / 'log4j.properties'}",
        "-cp",
        class_path(kafka_jars(settings.version, java, lambda _: None)),
        "org.apache.kafka.connect.mirror.MirrorMaker",
        str(home / "mm2.properties"),
    )
    return program(settings.name, command, {}, home / "log", settings.patience_s)
