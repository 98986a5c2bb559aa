"""The command of a worker with one flow into `west`, for the benchmarks of flows."""

import sys
from pathlib import Path

TARGET = "west"
NEW_TOPIC_S = 5.0
"""Goal for a new topic."""
COMMON = {
    "emit.checkpoints.interval.seconds": "5",
    "refresh.groups.interval.seconds": "5",
    "sync.topic.acls.enabled": "false",
}
"""Also for MirrorMaker 2."""


def flow_command(alias: str, topics: str, source: str, target: str, folder: Path) -> tuple[str, ...]:
    """A worker with one flow."""
    properties = {
        "clusters": f"{alias}, {TARGET}",
        f"{alias}.bootstrap.servers": source,
        f"{TARGET}.bootstrap.servers": target,
        f"{alias}->{TARGET}.enabled": "true",
        f"{alias}->{TARGET}.topics": topics,
        "emit.heartbeats.interval.seconds": "1",
        "replication.factor": "1",
        **COMMON,
    }
    file = folder / f"{alias}.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()), "utf-8")
    return str(Path(sys.executable).with_name("switchyard")), "mirror-maker", str(file)
