"""Nodes of a cache in ZooKeeper, below the installation's root, and their content.

```
/DataCache/{name}/commit          the commit time, the content's fingerprint, its writer
/DataCache/{name}/sync/{node}     ephemeral: the interval of times that a node can serve, and the time that it serves
/DataCache/{name}/reload          how often each node was asked to read everything anew
/DataCache/{name}/changed         written after a change of the source: all nodes read at once
```

Parsers never raise: an unreadable node counts as missing, and its owner writes it again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ha_core.datacache.core.agreement import CacheMember
from ha_core.datacache.core.cache import ContentCommit
from ha_core.datacache.core.source import MAX_US
from ha_core.datacache.core.uncommitted import Interval
from ha_core.store.paths import decode, encode

log = logging.getLogger(__name__)

ROOT = "/DataCache"
MAX_BYTES = 100_000
"""Limit for one node: a reload of 1,000 nodes is 30 kB."""
MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class Paths:
    """:param name: of the cache, any text."""

    name: str

    @property
    def base(self) -> str:
        return f"{ROOT}/{encode(self.name)}"

    @property
    def commit(self) -> str:
        return f"{self.base}/commit"

    @property
    def sync(self) -> str:
        return f"{self.base}/sync"

    @property
    def reload(self) -> str:
        return f"{self.base}/reload"

    @property
    def changed(self) -> str:
        return f"{self.base}/changed"

    def node(self, node: str) -> str:
        return f"{self.sync}/{encode(node)}"


@dataclass(frozen=True, slots=True)
class Published:
    """A node's published record.

    :ivar who: host and process, for people.
    :ivar trouble: why it cannot read, in a word; empty: it can.
    :ivar trouble_since_s: begin of the trouble, in seconds since the epoch by its clock, for people; 0: there is none.
    """

    holds: Interval | None = None
    main_us: int = 0
    who: str = ""
    trouble: str = ""
    trouble_since_s: int = 0

    def to_bytes(self) -> bytes:
        fields: dict[str, Any] = {"main_us": self.main_us, "who": self.who}
        if self.holds is not None:
            fields |= {"from_us": self.holds.from_us, "through_us": self.holds.through_us}
        if self.trouble:
            fields |= {"trouble": self.trouble, "since_s": self.trouble_since_s}
        return _to_bytes(fields)

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Published:
        fields = _parse(data, path)
        from_us, through_us = _time(fields, "from_us"), _time(fields, "through_us")
        holds = None if from_us is None or through_us is None else Interval(from_us, through_us)
        trouble, since_s = _text(fields, "trouble"), _time(fields, "since_s") or 0
        return cls(holds, _time(fields, "main_us") or 0, _text(fields, "who"), trouble, since_s)


@dataclass(frozen=True, slots=True)
class LiveNode:
    """:ivar session: the session of its ephemeral node."""

    member: CacheMember
    published: Published
    session: int

    @classmethod
    def of(cls, name: str, data: bytes, path: str, created: int, session: int) -> LiveNode:
        """:param name: of the node in ZooKeeper."""
        published = Published.from_bytes(data, path)
        return cls(CacheMember(decode(name), created, published.holds, published.main_us), published, session)


def commit_to_bytes(commit: ContentCommit, by: str) -> bytes:
    return _to_bytes({"commit_us": commit.at_us, "fingerprint": f"{commit.fingerprint:x}", "by": by})


def commit_from_bytes(data: bytes, path: str) -> ContentCommit | None:
    """None: there is none yet, or it is unreadable."""
    fields = _parse(data, path)
    at_us = _time(fields, "commit_us")
    try:
        return None if at_us is None else ContentCommit(at_us, int(str(fields.get("fingerprint"))[:32], 16))
    except ValueError:
        log.warning("%s has no fingerprint: it is written again with the next commit", path)
        return None


@dataclass(frozen=True, slots=True)
class Reloads:
    """Requests to read everything anew, counted for each node: a node reloads when its value has changed."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    everybody: int = 0

    def of(self, node: str) -> tuple[int, int]:
        """A node's value: when it changes, the node reloads."""
        return self.nodes.get(node, 0), self.everybody

    def to_bytes(self) -> bytes:
        return _to_bytes({"nodes": dict(self.nodes), "all": self.everybody})

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Reloads:
        fields = _parse(data, path)
        nodes = fields.get("nodes")
        counts = nodes if isinstance(nodes, dict) else {}
        numbers = {node: number for node in counts if (number := _time(counts, node)) is not None}
        return cls(numbers, _time(fields, "all") or 0)


def _to_bytes(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _parse(data: bytes, path: str) -> dict[str, Any]:
    if not data:
        return {}
    try:
        fields = json.loads(data) if len(data) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        log.warning("%s cannot be read (%d bytes): taken as missing", path, len(data))
        return {}
    return fields


def _time(fields: Mapping[str, Any], key: str) -> int | None:
    value = fields.get(key)
    return value if type(value) is int and 0 <= value <= MAX_US else None


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value[:MAX_TEXT] if isinstance(value, str) else ""
