"""Paths to the same brokers: direct, through the gateway, and any others (`bench.paths` measures them).

`--path NAME=HOST:PORT[,PID]` names one: a bootstrap address, and the process whose descendants are charged to it.
The first path is the base of the comparison. Without any, two clusters and a gateway are started here, and the paths
are direct and through the gateway, to a topic that never moved and to one that did (mapped); then both with TLS, which
the gateway ends.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path as Folder

from bench.figures import BenchOutcome
from bench.ground import CLUSTERS, KIB, BenchError, Say, Scale, create_topic, direct, switch, up
from bench.paths import ALONE, BOTH, LARGE, Path, SingleRequests, measured, prepare, write_alone
from bench.tls_sides import BROKER_TLS, CLUSTER, sides
from stack.harness import Stack

FIRST = 50
"""Records before a topic moves: above them physical and client offsets differ."""
SIZES = (100, 64 * KIB, KIB * KIB)
CONNECTIONS = (50, 1000)
LOADS = (
    *BOTH,
    *(SingleRequests("produce", size) for size in SIZES),
    *(SingleRequests("produce", connections=count) for count in CONNECTIONS),
)


def parse(texts: Sequence[str], topic: str) -> list[Path]:
    """Parse `NAME=HOST:PORT[,PID]`, the base first. :raises BenchError: another form, or a repeated name."""
    paths: list[Path] = []
    for text in texts:
        name, _, rest = text.partition("=")
        bootstrap, _, pid = rest.partition(",")
        if not name or not bootstrap.rpartition(":")[2].isdigit() or (pid and not pid.isdigit()):
            raise BenchError(f"--path {text!r} is not NAME=HOST:PORT[,PID], as in gateway=127.0.0.1:9092,4711")
        if any(path.name == name for path in paths):
            raise BenchError(f"--path {text!r}: there is a path {name!r} already; give each a name of its own")
        base = paths[0].name if paths else None
        paths.append(Path(name, bootstrap, int(pid) if pid else None, topic, base, ALONE - 1))
    return paths


def run(scale: Scale, say: Say) -> BenchOutcome:
    if scale.paths:
        paths = parse(scale.paths, f"bench-{int(time.time())}")
        prepare(paths[0].bootstrap, paths[0].topic)
        return _measured(paths, scale, say)
    with up(1, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        plain = _measured(_paths(stack, "west", "", direct(stack, "west"), None, say), scale, say)
        with sides(stack, Folder(folder), say, proxied=False) as tls_sides:
            broker = next(side for side in tls_sides if side.name == BROKER_TLS)
            paths = _paths(stack, CLUSTER, ", TLS", broker.bootstrap, str(broker.ca_file), say)
            enciphered = _measured(paths, scale, say)
    tables, remarks = (*plain.tables, *enciphered.tables), (*plain.remarks, *enciphered.remarks)
    return BenchOutcome({"plain": plain.figures, "tls": enciphered.figures}, tables, remarks)


def _paths(stack: Stack, cluster: str, name: str, broker: str, ca_file: str | None, say: Say) -> list[Path]:
    """Direct and through the gateway, to a topic that was always in the cluster and to one that moved there."""
    pid, stays, comes = int(stack.gateways[0]["pid"]), f"stays-{cluster}", f"comes-{cluster}"
    (other,) = CLUSTERS.keys() - {cluster}
    prepare(direct(stack, cluster), stays)
    create_topic(direct(stack, other), comes, 1, LARGE)
    write_alone(direct(stack, other), comes, FIRST)
    say(f"a topic moves to {cluster}, so that it is mapped")
    switch(stack, f"topic:{comes}", other, cluster)
    write_alone(direct(stack, cluster), comes, ALONE)
    base = Path(f"direct{name}", broker, None, stays, None, ALONE - 1, ca_file)
    return [
        base,
        Path(f"gateway{name}", stack.bootstrap, pid, stays, base.name, ALONE - 1, ca_file),
        Path(f"gateway, mapped{name}", stack.bootstrap, pid, comes, base.name, FIRST + ALONE - 1, ca_file),
    ]


def _measured(paths: Sequence[Path], scale: Scale, say: Say) -> BenchOutcome:
    return measured(paths, scale, say, BOTH if scale.quick else LOADS)
