"""The specification of a stack, parsed from the command line and checked before anything starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stack.errors import StackError
from stack.jars import locked_versions

SECURITY = ("none", "sasl", "tls")
MAX_BROKERS = 9
MAX_GATEWAYS = 8
MAX_WORKERS = 8
ZOOKEEPERS = (1, 3, 5)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_VERSION = re.compile(r"(?P<version>\d+\.\d+\.\d+)(x(?P<brokers>\d+))?")


@dataclass(frozen=True)
class ClusterSpec:
    """One cluster: its name, Kafka's version and the number of brokers, each of which is a controller too."""

    name: str
    version: str
    brokers: int = 1


@dataclass(frozen=True)
class StackSpec:
    """A whole stack. The first cluster is the default one.

    :raises StackError: such a stack is not possible.
    """

    clusters: tuple[ClusterSpec, ...]
    gateways: int = 2
    airflow: bool = False
    security: str = "none"
    spark: bool = False
    """A standalone master and a worker."""
    spark_connect: bool = False
    """A Spark Connect server, with a master and a worker."""
    mirror: bool = False
    """The Spark job that copies mirrors: on this machine, or on the stack's master."""
    record_facts_s: int = 0
    """Interval at which a gateway records facts of clusters; 0: never, which leaves the processor to tests."""
    platform: bool = False
    """Gateways take users and rules from a platform, not from files."""
    full_speed: bool = True
    """Brokers tuned for long runs. Without it they start with a third less work, but stay slower."""
    workers: int = 1
    """Workers of each gateway."""
    keep_in_zones: bool = False
    """Clients stay in the zone of the gateway that they ask: zone-1 is that of the first gateway, and so on."""
    zookeepers: int = 1
    """Members of ZooKeeper."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "spark", self.spark or self.spark_connect)
        if not self.clusters:
            raise StackError("a stack needs a cluster: add --cluster NAME=VERSION")
        names = [cluster.name for cluster in self.clusters]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise StackError(f"cluster {doubled[0]} is given more than once")
        if not 0 <= self.gateways <= MAX_GATEWAYS:
            raise StackError(f"{self.gateways} gateways; from 0 to {MAX_GATEWAYS} are possible")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise StackError(f"{self.workers} workers; from 1 to {MAX_WORKERS} are possible")
        if self.zookeepers not in ZOOKEEPERS:
            raise StackError(f"{self.zookeepers} members of ZooKeeper; {', '.join(map(str, ZOOKEEPERS))} are possible")
        if self.record_facts_s < 0:
            raise StackError(f"facts every {self.record_facts_s} seconds; 0 is never")
        if self.security not in SECURITY:
            raise StackError(f"security {self.security!r} is none of {', '.join(SECURITY)}")
        if self.platform and self.security == "none":
            raise StackError("a platform needs logins: add --security sasl or tls")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StackSpec:
        clusters = tuple(ClusterSpec(**cluster) for cluster in document["clusters"])
        return cls(**{**document, "clusters": clusters})


def parse_cluster(text: str) -> ClusterSpec:
    """`east=3.9.2` or `east=4.3.1x3` (three brokers)."""
    name, separator, rest = text.partition("=")
    if not separator:
        raise StackError(f"cluster {text!r} is not NAME=VERSION or NAME=VERSIONxBROKERS, such as east=4.3.1x3")
    return cluster_spec(name, rest)


def cluster_spec(name: str, text: str) -> ClusterSpec:
    """The cluster `name` of `text` such as `3.9.2` or `4.3.1x3`."""
    if not _NAME.fullmatch(name):
        raise StackError(
            f"cluster name {name!r} must be lower-case letters, digits, '-' and '_', and at most 63 of them"
        )
    match = _VERSION.fullmatch(text)
    if match is None:
        raise StackError(
            f"cluster {name}: {text!r} is no version such as 4.3.1, nor one with a number of brokers such as 4.3.1x3"
        )
    version, brokers = match["version"], int(match["brokers"] or 1)
    known = locked_versions()
    if version not in known:
        raise StackError(
            f"cluster {name}: there is no locked module list for Kafka {version}; there is one for {', '.join(known)}"
        )
    if not 1 <= brokers <= MAX_BROKERS:
        raise StackError(f"cluster {name}: {brokers} brokers; from 1 to {MAX_BROKERS} are possible")
    return ClusterSpec(name, version, brokers)
